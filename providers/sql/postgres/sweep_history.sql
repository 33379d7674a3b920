-- Of the oldest $1 entries, deletes those older than $2 microseconds.
WITH oldest AS MATERIALIZED (
	SELECT seq, at FROM {{history}} ORDER BY seq LIMIT $1::int
), gone AS (
	DELETE FROM {{history}} AS h USING oldest AS o
	WHERE h.seq = o.seq AND o.at < clock_timestamp() - $2::bigint * interval '1 microsecond' RETURNING 1
)
SELECT count(*) FROM gone
