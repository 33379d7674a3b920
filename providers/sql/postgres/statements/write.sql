-- Writes the row of $1 if its version is still $2: 0 inserts it.
--
-- The clock is read after the row lock is held ("locked" waits for it), so
-- neither a deadline nor a token is computed from a time before the wait. The
-- WHERE of "locked" is evaluated again on what the row has become meanwhile:
-- https://www.postgresql.org/docs/current/transaction-iso.html#XACT-READ-COMMITTED
WITH locked AS MATERIALIZED (
	SELECT l.* FROM {{lease}} AS l WHERE l.name = $1::text AND l.version = $2::bigint {{lock}}
), old AS MATERIALIZED (
	SELECT locked.*, {{now}} AS now FROM locked
), updated AS (
	UPDATE {{lease}} AS l SET
		token = CASE WHEN $3::boolean THEN greatest(old.token + 1, {{micros:old.now}}, CASE WHEN old.token = 0 THEN {{floor}} + 1 END) ELSE old.token END,
		id = $4::text,
		owner = $5::text,
		ttl_us = $6::bigint,
		metadata = $7::text::jsonb,
		acquired_at = CASE WHEN $3::boolean THEN old.now WHEN $4::text <> '' THEN old.acquired_at END,
		expires_at = CASE WHEN NOT $8::boolean THEN old.expires_at WHEN $4::text <> '' THEN old.now + {{span:$9::bigint}} ELSE {{reserved:old.now}} END,
		breaking = $10::boolean,
		broken_by = $11::text,
		break_reason = $12::text,
		ended = $13::bytea,
		waiters = CASE WHEN $3::boolean THEN {{served:$21::bytea}} ELSE l.waiters END,
		version = greatest(old.version + 1, {{micros:old.now}})
	FROM old WHERE l.name = old.name
	RETURNING old.now, l.token, l.expires_at, CASE WHEN $20::boolean THEN {{notified}} END AS notified
), fresh AS MATERIALIZED (
	SELECT {{now}} AS now WHERE $2::bigint = 0
), inserted AS (
	INSERT INTO {{lease}} AS l (name, token, id, owner, ttl_us, metadata, acquired_at, expires_at, breaking, broken_by, break_reason, ended, version)
	SELECT $1::text, CASE WHEN $3::boolean THEN greatest({{micros:now}}, {{floor}} + 1) ELSE 0 END, $4::text, $5::text, $6::bigint, $7::text::jsonb,
		CASE WHEN $3::boolean THEN now END,
		CASE WHEN $8::boolean THEN now + {{span:$9::bigint}} END,
		$10::boolean, $11::text, $12::text, $13::bytea, {{micros:now}}
	FROM fresh
	ON CONFLICT (name) DO NOTHING
	RETURNING l.token, l.expires_at, 0::bigint AS notified
), written AS (
	SELECT * FROM updated
	UNION ALL
	SELECT fresh.now, i.* FROM inserted AS i, fresh
), noted AS (
	INSERT INTO {{history}} (name, at, kind, id, owner, token, actor, reason)
	SELECT name, at, kind, id, owner, token, actor, reason FROM (
		SELECT 1 AS n, old.name, old.expires_at AS at, 'expired' AS kind, {{fingerprint:old.id}} AS id, old.owner, old.token, '' AS actor, '' AS reason
		FROM old WHERE $14::boolean
		UNION ALL
		SELECT 2, $1::text, w.now, $15::text, $16::text, $17::text, w.token, $18::text, $19::text
		FROM written AS w WHERE $15::text <> ''
	) AS e ORDER BY n
)
SELECT {{micros:now}}, token, coalesce({{micros:expires_at}}, 0), coalesce(notified, 0) FROM written
