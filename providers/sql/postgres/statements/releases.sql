-- Frees the names in $1, a JSON array of {n, name, id, hash} in the order of the
-- names, none of them twice, and returns those that it freed. The others are for
-- release.sql's caller to look at. See acquires.sql for locks and the clock.
WITH {{request:id text, hash text}}, locked AS MATERIALIZED (
	SELECT r.hash, l.* FROM request AS r CROSS JOIN LATERAL (
		SELECT l.* FROM {{lease}} AS l WHERE l.name = r.name AND l.id = r.id AND NOT l.breaking FOR UPDATE OF l SKIP LOCKED
	) AS l
), {{clock}}, updated AS (
	UPDATE {{lease}} AS l SET
		id = '', owner = '', ttl_us = NULL, metadata = '{}', acquired_at = NULL, expires_at = {{reserved:c.now}},
		ended = pg_catalog.decode(old.hash, 'base64') || {{ended:c.us / 1000000}}, version = greatest(l.version + 1, c.us)
	FROM locked AS old, c WHERE l.name = old.name
	RETURNING l.name, l.token, {{notified}} AS notified
){{if_history:, noted AS (
	INSERT INTO {{history}} (name, at, kind, id, owner, token)
	SELECT old.name, least(old.expires_at, c.now), CASE WHEN old.expires_at <= c.now THEN 'expired' ELSE 'released' END, {{fingerprint:old.id}}, old.owner, old.token
	FROM locked AS old, c
)}}
SELECT u.name, u.token, u.notified FROM updated AS u
