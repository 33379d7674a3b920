SELECT seq, at, kind, id, owner, token FROM {{history}}
WHERE name = $1::text AND seq > $2::bigint ORDER BY seq LIMIT $3::int
