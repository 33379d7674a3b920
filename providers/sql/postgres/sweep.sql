-- Looks at $2 names after $1 and forgets those that are free, have been idle
-- for $3 microseconds, and whose token the clock has passed: the next one will
-- be greater though its predecessor is forgotten. Without $1 it goes on where the
-- latest such statement ended, of any process, unless one is under way. A row that
-- somebody has locked is left for the next time.
WITH hand AS MATERIALIZED (
	SELECT swept FROM {{schema}} WHERE version = {{version}} AND $1::text IS NULL FOR UPDATE SKIP LOCKED
), page AS MATERIALIZED (
	SELECT name FROM {{lease}} WHERE name > coalesce($1::text, (SELECT swept FROM hand)) ORDER BY name LIMIT $2::int
), last AS MATERIALIZED (
	SELECT CASE WHEN pg_catalog.count(*) < $2::int THEN '' ELSE pg_catalog.max(name) END AS name FROM page
), moved AS (
	UPDATE {{schema}} AS s SET swept = last.name FROM hand, last WHERE s.version = {{version}}
), c AS MATERIALIZED (
	SELECT {{now}} AS now
), idle AS MATERIALIZED (
	SELECT l.name FROM {{lease}} AS l, page, c
	WHERE l.name = page.name AND (l.id = '' OR l.expires_at <= c.now - {{span:$3::bigint}})
		AND l.version <= {{micros:c.now}} - $3::bigint AND l.token < {{micros:c.now}}
	ORDER BY l.name FOR UPDATE OF l SKIP LOCKED
), gone AS (
	DELETE FROM {{lease}} AS l USING idle WHERE l.name = idle.name RETURNING 1
), strangers AS (
	DELETE FROM {{waiters}} AS w USING idle WHERE w.name = idle.name
)
SELECT last.name, (SELECT pg_catalog.count(*) FROM gone) FROM last
