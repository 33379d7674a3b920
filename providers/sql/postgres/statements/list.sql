-- A page of the names from $1 on that come after $2 and before $3.
WITH c AS MATERIALIZED (
	SELECT {{now}} AS now
)
SELECT {{micros:c.now}}, {{row:l}}, l.name
FROM {{lease}} AS l, c
WHERE l.name >= $1::text AND l.name > $2::text AND l.name < $3::text AND l.token > 0
	AND (NOT $4::boolean OR l.id <> '' AND (l.expires_at IS NULL OR l.expires_at > c.now))
ORDER BY l.name LIMIT $5::int
