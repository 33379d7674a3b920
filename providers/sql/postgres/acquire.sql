-- Takes $1 for $2 if it is free, and returns the row as it was before: the
-- commonest acquire in one round trip. A name that is held is only read, so
-- that those who wait for it write nothing. See write.sql for the clock.
WITH before AS MATERIALIZED (
	SELECT c.now, l.* FROM (SELECT {{now}} AS now OFFSET 0) AS c
	LEFT JOIN {{lease}} AS l ON l.name = $1::text
), locked AS MATERIALIZED (
	SELECT l.* FROM {{lease}} AS l
	WHERE l.name = $1::text
		AND (l.id = '' OR l.expires_at <= (SELECT now FROM before) AND NOT l.breaking)
		AND pg_catalog.strpos(' ' || l.ended, ' ' || $2::text || '@') = 0
		AND pg_catalog.strpos(' ' || l.ended, ' ' || $2::text || '!') = 0
	{{lock}}
), old AS MATERIALIZED (
	SELECT locked.*, {{now}} AS now FROM locked
), updated AS (
	UPDATE {{lease}} AS l SET
		token = greatest(old.token + 1, {{micros:old.now}}),
		id = $2::text,
		owner = $3::text,
		ttl_us = $4::bigint,
		metadata = $5::text::jsonb,
		acquired_at = old.now,
		expires_at = old.now + {{span:$4::bigint}},
		version = greatest(old.version + 1, {{micros:old.now}})
	FROM old WHERE l.name = old.name
	RETURNING l.*
), fresh AS MATERIALIZED (
	SELECT {{now}} AS now FROM before WHERE version IS NULL
), inserted AS (
	INSERT INTO {{lease}} AS l (name, token, id, owner, ttl_us, metadata, acquired_at, expires_at, breaking, broken_by, break_reason, ended, version)
	SELECT $1::text, {{micros:now}}, $2::text, $3::text, $4::bigint, $5::text::jsonb, now,
		now + {{span:$4::bigint}}, false, '', '', '', {{micros:now}}
	FROM fresh
	ON CONFLICT (name) DO NOTHING
	RETURNING l.*
), written AS (
	SELECT * FROM updated UNION ALL SELECT * FROM inserted
), noted AS (
	INSERT INTO {{history}} (name, at, kind, id, owner, token)
	SELECT name, at, kind, id, owner, token FROM (
		SELECT 1 AS n, old.name, old.expires_at AS at, 'expired' AS kind, old.id, old.owner, old.token
		FROM old WHERE $6::boolean AND old.id <> ''
		UNION ALL
		SELECT 2, $1::text, w.acquired_at, 'acquired', $2::text, $3::text, w.token
		FROM written AS w WHERE $6::boolean
	) AS e ORDER BY n
), {{trim:$7}}
SELECT {{micros:b.now}}, {{row:b}}, coalesce(w.version, 0), coalesce(w.token, 0), {{micros:w.acquired_at}}, {{micros:w.expires_at}}
FROM before AS b LEFT JOIN written AS w ON true
