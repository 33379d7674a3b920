-- Frees $1 if $2 holds it: the commonest release in one round trip, which touches one
-- row once. No row comes back otherwise. $3 stands for the ID in the memory of ended ones.
-- If somebody waits, the name is reserved for the first, who is woken.
UPDATE {{lease}} AS l SET
	id = '', owner = '', ttl_us = NULL, metadata = '{}', acquired_at = NULL, expires_at = {{reserved:{{now}}}},
	ended = $3::bytea || {{ended:{{micros:{{now}}}} / 1000000}}, version = greatest(l.version + 1, {{micros:{{now}}}})
WHERE l.name = $1::text AND l.id = $2::text AND NOT l.breaking
RETURNING l.token, {{notified}}
