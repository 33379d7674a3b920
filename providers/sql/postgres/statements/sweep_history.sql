-- Of $1 of the oldest entries of the history, deletes those that are too old.
WITH trimmed AS (
	DELETE FROM {{history}} WHERE at < {{now}} - {{span:{{history_us}}}}
		AND seq IN (SELECT seq FROM {{history}} ORDER BY seq LIMIT $1::int FOR UPDATE SKIP LOCKED)
	RETURNING 1
)
SELECT pg_catalog.count(*) FROM trimmed
