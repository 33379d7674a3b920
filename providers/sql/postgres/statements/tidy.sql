-- Forgets who has waited for $1 and does no more. One that comes back meanwhile is new.
DELETE FROM {{waiters}} AS w USING {{lease}} AS l
WHERE w.name = $1::text AND l.name = $1::text AND NOT {{queued:w.hash}} AND w.since < {{now}} - interval '1 second'
