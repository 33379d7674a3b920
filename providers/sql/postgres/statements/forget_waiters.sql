-- Forgets the waiters of $1 that have left the queue. A waiter that comes back in the meantime is new.
DELETE FROM {{waiters}} AS w USING {{lease}} AS l
WHERE w.name = $1::text AND l.name = $1::text AND NOT {{queued:w.hash}} AND w.since < {{now}} - interval '1 second'
