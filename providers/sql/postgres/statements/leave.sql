-- Takes the waiter $2 out of the queue of $1. If it was its turn, it is the next one's then. For the
-- commit see wait.sql.
UPDATE {{lease}} AS l SET
	waiters = {{without:$2::bytea}},
	expires_at = CASE WHEN NOT {{turn:$2::bytea}} THEN l.expires_at WHEN pg_catalog.length(l.waiters) > {{waiter_bytes}} THEN c.now + {{grace}} END
FROM {{instant:}} AS c
WHERE l.name = $1::text AND {{queued:$2::bytea}}
RETURNING CASE WHEN l.id = '' AND l.expires_at = c.now + {{grace}} THEN {{notified}} END, pg_catalog.set_config('synchronous_commit', 'off', true)
