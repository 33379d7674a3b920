-- Looks at $2 names after $1 and forgets those that are free, have been idle
-- for $3 microseconds, and whose token the clock has passed. The clock may be set back, so their
-- highest token becomes the floor. Without $1 it goes on where the
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
), floor AS MATERIALIZED (
	SELECT FROM {{lease}} AS l WHERE l.name = '' FOR UPDATE OF l SKIP LOCKED
), idle AS MATERIALIZED (
	SELECT l.name, l.token FROM {{lease}} AS l, page, c
	WHERE l.name = page.name AND (l.id = '' OR l.expires_at <= c.now - {{span:$3::bigint}})
		AND l.version <= {{micros:c.now}} - $3::bigint AND l.token < {{micros:c.now}}
		AND (EXISTS (SELECT FROM floor) OR {{floor}} IS NULL)
	ORDER BY l.name FOR UPDATE OF l SKIP LOCKED
), raised AS (
	INSERT INTO {{lease}} AS l (name, token, id, owner, metadata, breaking, broken_by, break_reason, version, ended)
	SELECT '', max.token, '', '', '{}', false, '', '', 1, '' FROM (SELECT pg_catalog.max(idle.token) AS token FROM idle) AS max WHERE max.token > 0
	ON CONFLICT (name) DO UPDATE SET token = greatest(l.token, excluded.token)
), gone AS (
	DELETE FROM {{lease}} AS l USING idle WHERE l.name = idle.name RETURNING 1
), strangers AS (
	DELETE FROM {{waiters}} AS w USING idle WHERE w.name = idle.name
)
SELECT last.name, (SELECT pg_catalog.count(*) FROM gone) FROM last
