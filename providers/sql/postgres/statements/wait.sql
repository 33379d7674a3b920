-- Reads the row of $1 as read.sql does, for a claim that waits: $2, which is woken on the channel $3. Its ID
-- is $4, its owner $5.
-- It joins the queue unless it is there, or the name is free to it. A place that a crash of the server
-- takes away is no more than a place, so the commit waits for no sync.
WITH locked AS MATERIALIZED (
	SELECT l.* FROM {{lease}} AS l WHERE l.name = $1::text {{lock}}
), {{clock}}, joined AS (
	UPDATE {{lease}} AS l SET waiters = l.waiters || $2::bytea || $3::bytea
	FROM locked AS old, c WHERE l.name = old.name AND NOT ({{free:c.now}} OR {{turn:$2::bytea}})
		AND NOT {{queued:$2::bytea}} AND pg_catalog.length(l.waiters) < {{most_waiters}}
	RETURNING c.now
), noted AS (
	INSERT INTO {{waiters}} (name, hash, channel, id, owner, since)
	SELECT $1::text, $2::bytea, $3::bytea, $4::text, $5::text, joined.now FROM joined
	ON CONFLICT (name, hash) DO UPDATE SET channel = excluded.channel, owner = excluded.owner, since = excluded.since
)
SELECT c.us, {{row:l}}, {{kept:$2::bytea}}, coalesce(CASE WHEN coalesce(l.token, 0) = 0 THEN {{floor}} END, 0)
FROM c LEFT JOIN locked AS l ON true WHERE pg_catalog.set_config('synchronous_commit', 'off', true) <> ''
