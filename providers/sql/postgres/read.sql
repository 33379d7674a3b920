-- The row of $1, if there is one, and the clock.
SELECT c.now, coalesce(l.version, 0) AS version, coalesce(l.token, 0) AS token, coalesce(l.id, '') AS id,
	coalesce(l.owner, '') AS owner, l.ttl_us, coalesce(l.metadata::text, '{}') AS metadata, l.acquired_at, l.expires_at,
	coalesce(l.breaking, false) AS breaking, coalesce(array_to_string(l.ended, ' '), '') AS ended
FROM (SELECT clock_timestamp() AS now OFFSET 0) AS c
LEFT JOIN {{lease}} AS l ON l.name = $1::text
