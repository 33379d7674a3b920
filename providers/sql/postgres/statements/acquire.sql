-- Takes $1 for $2 if nobody has it: the commonest acquire in one round trip, which
-- touches one row once. No row comes back otherwise, nor where the floor matters. A name that is held is only read, so
-- that those who wait for it write nothing. $6 stands for the ID in the memory of ended
-- ones and among the waiters. A row that exists is locked before the SET, and with it the clock, is evaluated.
INSERT INTO {{lease}} AS l (name, token, id, owner, ttl_us, metadata, acquired_at, expires_at, breaking, broken_by, break_reason, version, ended)
SELECT $1::text, {{micros:c.now}}, $2::text, $3::text, $4::bigint, $5::text::jsonb, c.now, c.now + {{span:$4::bigint}}, false, '', '', {{micros:c.now}}, ''
FROM (SELECT {{now}} AS now OFFSET 0) AS c
WHERE NOT EXISTS (SELECT FROM {{lease}} AS l WHERE l.name = $1::text AND NOT ({{free:c.now}} OR {{turn:$6::bytea}}))
	AND {{above:{{micros:c.now}}}}
ON CONFLICT (name) DO UPDATE SET
	id = excluded.id, owner = excluded.owner, ttl_us = excluded.ttl_us, metadata = excluded.metadata, waiters = {{served:$6::bytea}},
	(token, acquired_at, expires_at, version) = (
		SELECT greatest(l.token + 1, {{micros:c.now}}), c.now, c.now + {{span:$4::bigint}}, greatest(l.version + 1, {{micros:c.now}})
		FROM (SELECT {{now}} AS now OFFSET 0) AS c
	)
WHERE ({{free:{{now}}}} OR {{turn:$6::bytea}})
	AND pg_catalog."position"(l.ended, $6::bytea) = 0
	AND {{plain}}
RETURNING l.token, {{micros:l.acquired_at}}
