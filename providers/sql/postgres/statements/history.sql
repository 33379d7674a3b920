SELECT seq, {{micros:at}}, kind, id, owner, token, actor, reason FROM {{history}}
WHERE name = $1::text AND seq > $2::bigint ORDER BY seq LIMIT $3::int
