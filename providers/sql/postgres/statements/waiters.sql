-- Who waits for $1, in order, but for those who have let their turn pass, and for those whose process is gone: while it
-- listens it holds an advisory lock, which its channel names. Of those who poll that is not known.
WITH c AS MATERIALIZED (
	SELECT {{now}} AS now
), listening AS MATERIALIZED (
	SELECT pg_catalog.int8send(k.classid::bigint << 32 | k.objid::bigint) AS channel FROM pg_catalog.pg_locks AS k
	WHERE k.locktype = 'advisory' AND k.objsubid = 1
		AND k.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
)
SELECT {{micros:c.now}}, w.id, w.owner, {{micros:w.since}}
FROM c, {{lease}} AS l
CROSS JOIN pg_catalog.generate_series(0, pg_catalog.length(l.waiters) / {{waiter_bytes}} - 1) AS place
JOIN {{waiters}} AS w ON w.name = l.name AND w.hash = pg_catalog.substr(l.waiters, place * {{waiter_bytes}} + 1, 8)
WHERE l.name = $1::text AND NOT (place = 0 AND l.id = '' AND coalesce(l.expires_at <= c.now, false))
	AND (w.channel = pg_catalog.decode('0000000000000000', 'hex') OR w.channel IN (SELECT channel FROM listening))
ORDER BY place LIMIT $2::int
