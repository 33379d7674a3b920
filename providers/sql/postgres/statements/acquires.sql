-- Takes the names in $1, a JSON array of {n, name, id, hash, owner, ttl_us, metadata} in
-- the order of the names, none of them twice, and returns those that it took. The others
-- are for acquire.sql's caller to look at: they are held, ended, or somebody has
-- the row locked, or their token is no plain one. No lock is waited for except that of a new name, so that two such
-- statements can't deadlock. The clock is read when the rows are locked.
WITH {{request:id text, hash text, owner text, ttl_us bigint, metadata text}}, locked AS MATERIALIZED (
	SELECT r.name, r.id, r.owner, r.ttl_us, r.metadata, l.hash, l.id AS old_id, l.owner AS old_owner, l.token AS old_token, l.version AS old_version, l.expires_at AS old_expires_at
	FROM request AS r CROSS JOIN LATERAL (
		SELECT h.hash, l.* FROM (SELECT pg_catalog.decode(r.hash, 'base64') AS hash OFFSET 0) AS h, {{lease}} AS l
		WHERE l.name = r.name AND ({{free:{{now}}}} OR {{turn:h.hash}}) AND pg_catalog."position"(l.ended, h.hash) = 0
			AND {{plain}}
		FOR UPDATE OF l SKIP LOCKED
	) AS l
), {{clock}}, updated AS (
	UPDATE {{lease}} AS l SET
		token = greatest(old.old_token + 1, c.us), id = old.id, owner = old.owner, ttl_us = old.ttl_us, metadata = old.metadata::jsonb,
		acquired_at = c.now, expires_at = c.now + {{span:old.ttl_us}}, version = greatest(old.old_version + 1, c.us), waiters = {{served:old.hash}}
	FROM locked AS old, c WHERE l.name = old.name AND c.us <= {{before_last}}
	RETURNING l.name, l.token, l.id, l.owner
), inserted AS (
	INSERT INTO {{lease}} AS l (name, token, id, owner, ttl_us, metadata, acquired_at, expires_at, breaking, broken_by, break_reason, version, ended)
	SELECT r.name, c.us, r.id, r.owner, r.ttl_us, r.metadata::jsonb, c.now, c.now + {{span:r.ttl_us}}, false, '', '', c.us, ''
	FROM request AS r, c WHERE NOT EXISTS (SELECT FROM {{lease}} AS l WHERE l.name = r.name) AND {{above:c.us}}
	ON CONFLICT (name) DO NOTHING
	RETURNING l.name, l.token, l.id, l.owner
), taken AS (
	SELECT * FROM updated UNION ALL SELECT * FROM inserted
){{if_history:, noted AS (
	INSERT INTO {{history}} (name, at, kind, id, owner, token)
	SELECT e.name, e.at, e.kind, {{fingerprint:e.id}}, e.owner, e.token FROM (
		SELECT 1 AS n, name, old_expires_at AS at, 'expired' AS kind, old_id AS id, old_owner AS owner, old_token AS token FROM locked WHERE old_id <> ''
		UNION ALL
		SELECT 2, t.name, c.now, 'acquired', t.id, t.owner, t.token FROM taken AS t, c
	) AS e ORDER BY e.n
)}}
SELECT t.name, t.token, c.us FROM taken AS t, c
