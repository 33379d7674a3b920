-- Looks at $2 names after $1 and forgets those that are free, have been idle
-- for $3 microseconds, and whose token the clock has passed: the next one will
-- be greater though its predecessor is forgotten. Somebody's locked row is left
-- for the next time.
WITH page AS MATERIALIZED (
	SELECT name FROM {{lease}} WHERE name > $1::text ORDER BY name LIMIT $2::int
), c AS MATERIALIZED (
	SELECT clock_timestamp() AS now
), idle AS MATERIALIZED (
	SELECT l.name FROM {{lease}} AS l, page, c
	WHERE l.name = page.name AND (l.id = '' OR l.expires_at <= c.now - $3::bigint * interval '1 microsecond')
		AND l.version <= {{micros:c.now}} - $3::bigint AND l.token < {{micros:c.now}}
	ORDER BY l.name FOR UPDATE OF l SKIP LOCKED
), gone AS (
	DELETE FROM {{lease}} AS l USING idle WHERE l.name = idle.name RETURNING 1
)
SELECT (SELECT count(*) FROM page), coalesce((SELECT max(name) FROM page), ''), (SELECT count(*) FROM gone)
