-- Frees $1 if $2 holds it: the commonest release in one round trip. No row
-- comes back if it doesn't. See write.sql for the clock, and providerkit.Ended.Add
-- for the list of ended IDs.
WITH locked AS MATERIALIZED (
	SELECT l.* FROM {{lease}} AS l WHERE l.name = $1::text AND l.id = $2::text AND NOT l.breaking {{lock}}
), old AS MATERIALIZED (
	SELECT l.*, coalesce(l.expires_at <= l.now, false) AS ran_out, {{micros:l.now}} / 1000000 AS second FROM (
		SELECT locked.*, {{now}} AS now FROM locked OFFSET 0
	) AS l
), updated AS (
	UPDATE {{lease}} AS l SET
		id = '', owner = '', ttl_us = NULL, metadata = '{}', acquired_at = NULL, expires_at = NULL,
		ended = pg_catalog.concat_ws(' ', $2::text || '@' || old.second::text, (
			SELECT pg_catalog.string_agg(e.id, ' ' ORDER BY e.n)
			FROM pg_catalog.unnest(pg_catalog.string_to_array(old.ended, ' ')) WITH ORDINALITY AS e(id, n)
			WHERE e.n < {{ended_least}} OR e.n < {{ended_most}} AND pg_catalog.split_part(e.id, '@', 2)::bigint >= old.second - {{ended_for}}
		)),
		version = greatest(old.version + 1, {{micros:old.now}})
	FROM old WHERE l.name = old.name
	RETURNING old.now, l.token, old.ran_out
), noted AS (
	INSERT INTO {{history}} (name, at, kind, id, owner, token)
	SELECT name, CASE WHEN ran_out THEN expires_at ELSE now END, CASE WHEN ran_out THEN 'expired' ELSE 'released' END, id, owner, token
	FROM old WHERE $3::boolean
), {{trim:$6}}, woken AS MATERIALIZED (
	SELECT pg_catalog.pg_notify($4::text, $5::text) FROM updated WHERE $4::text <> ''
)
SELECT {{micros:now}}, token, ran_out, (SELECT pg_catalog.count(*) FROM woken) FROM updated
