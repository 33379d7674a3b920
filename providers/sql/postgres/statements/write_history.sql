-- Appends the entries in $1, a JSON array, in its order.
INSERT INTO {{history}} (name, at, kind, id, owner, token, actor, reason)
SELECT r.name, r.at, r.kind, coalesce(r.fingerprint, ''), coalesce(r.owner, ''), r.token, coalesce(r.actor, ''), coalesce(r.reason, '')
FROM ROWS FROM (
	pg_catalog.jsonb_to_recordset($1::text::jsonb) AS (name text COLLATE "C", "time" timestamptz, kind text, fingerprint text, owner text, token bigint, actor text, reason text)
) WITH ORDINALITY AS r(name, at, kind, fingerprint, owner, token, actor, reason, n)
ORDER BY r.n
