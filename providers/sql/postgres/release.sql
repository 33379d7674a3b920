-- Frees $1 if $2 holds it: the commonest release in one round trip. No row
-- comes back if it doesn't. See write.sql for the clock.
WITH locked AS MATERIALIZED (
	SELECT * FROM {{lease}} WHERE name = $1::text AND id = $2::text FOR UPDATE
), old AS MATERIALIZED (
	SELECT l.*, l.expires_at <= l.now AS ran_out FROM (
		SELECT locked.*, clock_timestamp() AS now FROM locked OFFSET 0
	) AS l
), updated AS (
	UPDATE {{lease}} AS l SET
		id = '', owner = '', ttl_us = NULL, metadata = '{}', acquired_at = NULL, expires_at = NULL, breaking = false,
		ended = CASE WHEN old.ended && ARRAY[$2::text, $2::text || '!'] THEN old.ended ELSE (array_prepend($2::text, old.ended))[1:{{remembered}}] END,
		version = greatest(old.version + 1, {{micros:old.now}})
	FROM old WHERE l.name = old.name
	RETURNING old.now, l.token, old.ran_out
), noted AS (
	INSERT INTO {{history}} (name, at, kind, id, owner, token)
	SELECT name, CASE WHEN ran_out THEN expires_at ELSE now END, CASE WHEN ran_out THEN 'expired' ELSE 'released' END, id, owner, token
	FROM old WHERE $3::boolean AND NOT (coalesce(ran_out, false) AND breaking)
), woken AS MATERIALIZED (
	SELECT pg_notify($4::text, $5::text) FROM updated WHERE $4::text <> ''
)
SELECT now, token, coalesce(ran_out, false), (SELECT count(*) FROM woken) FROM updated
