-- Writes the row of $1 if its version is still $2: 0 inserts it.
--
-- The clock is read after the row lock is held ("locked" waits for it), so
-- neither a deadline nor a token is computed from a time before the wait. The
-- WHERE of "locked" is evaluated again on what the row has become meanwhile:
-- https://www.postgresql.org/docs/current/transaction-iso.html#XACT-READ-COMMITTED
WITH locked AS MATERIALIZED (
	SELECT * FROM {{lease}} WHERE name = $1::text AND version = $2::bigint FOR UPDATE
), old AS MATERIALIZED (
	SELECT locked.*, clock_timestamp() AS now FROM locked
), updated AS (
	UPDATE {{lease}} AS l SET
		token = CASE WHEN $3::boolean THEN greatest(old.token + 1, {{micros:old.now}}) ELSE old.token END,
		id = $4::text,
		owner = $5::text,
		ttl_us = $6::bigint,
		metadata = $7::text::jsonb,
		acquired_at = CASE WHEN $3::boolean THEN old.now WHEN $4::text <> '' THEN old.acquired_at END,
		expires_at = CASE $8::int WHEN 0 THEN old.expires_at WHEN 2 THEN old.now + $9::bigint * interval '1 microsecond' END,
		breaking = $10::boolean,
		ended = string_to_array($11::text, ' '),
		version = greatest(old.version + 1, {{micros:old.now}})
	FROM old WHERE l.name = old.name
	RETURNING old.now, l.version, l.token, l.acquired_at, l.expires_at
), fresh AS MATERIALIZED (
	SELECT clock_timestamp() AS now WHERE $2::bigint = 0
), inserted AS (
	INSERT INTO {{lease}} AS l (name, token, id, owner, ttl_us, metadata, acquired_at, expires_at, breaking, ended, version)
	SELECT $1::text, CASE WHEN $3::boolean THEN {{micros:now}} ELSE 0 END, $4::text, $5::text, $6::bigint, $7::text::jsonb,
		CASE WHEN $3::boolean THEN now END,
		CASE $8::int WHEN 2 THEN now + $9::bigint * interval '1 microsecond' END,
		$10::boolean, string_to_array($11::text, ' '), {{micros:now}}
	FROM fresh
	ON CONFLICT (name) DO NOTHING
	RETURNING l.acquired_at, l.version, l.token, l.expires_at
), written AS (
	SELECT now, version, token, acquired_at, expires_at FROM updated
	UNION ALL
	SELECT fresh.now, i.version, i.token, i.acquired_at, i.expires_at FROM inserted AS i, fresh
), noted AS (
	INSERT INTO {{history}} (name, at, kind, id, owner, token)
	SELECT name, at, kind, id, owner, token FROM (
		SELECT 1 AS n, old.name, old.expires_at AS at, 'expired' AS kind, old.id, old.owner, old.token
		FROM old WHERE $12::boolean
		UNION ALL
		SELECT 2, $1::text, w.now, $13::text, $14::text, $15::text, w.token
		FROM written AS w WHERE $13::text <> ''
	) AS e ORDER BY n
), woken AS MATERIALIZED (
	SELECT pg_notify($16::text, $17::text) FROM written WHERE $16::text <> ''
)
SELECT now, version, token, acquired_at, expires_at, (SELECT count(*) FROM woken) FROM written
