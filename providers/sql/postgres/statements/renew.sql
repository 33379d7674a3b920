-- Renews the claims in $1, a JSON array of {n, name, id, token, ttl_us, metadata}, and
-- says of each what it found: whether it was renewed (by one of several that say the
-- same, if it stands there several times), and if not, the row that
-- stood in the way, or that the row was not looked at because somebody has it
-- locked ({{lock}} skips those in a batch). Rows are locked in the order of
-- their names, so that two batches can't deadlock. See write.sql for the clock.
WITH request AS MATERIALIZED (
	SELECT r.n, r.name, r.id AS claim, r.token AS claim_token, r.ttl_us AS claim_ttl_us, r.metadata AS claim_metadata
	FROM pg_catalog.jsonb_to_recordset($1::text::jsonb) AS r(n int, name text COLLATE "C", id text, token bigint, ttl_us bigint, metadata jsonb)
), locked AS MATERIALIZED (
	SELECT r.n, r.claim, r.claim_token, r.claim_ttl_us, r.claim_metadata, l.*
	FROM request AS r JOIN {{lease}} AS l ON l.name = r.name
	ORDER BY l.name {{lock}}
), old AS MATERIALIZED (
	SELECT locked.*, {{now}} AS now FROM locked
), updated AS (
	UPDATE {{lease}} AS l SET
		ttl_us = old.claim_ttl_us,
		metadata = coalesce(old.claim_metadata, old.metadata),
		expires_at = old.now + {{span:old.claim_ttl_us}},
		version = greatest(old.version + 1, {{micros:old.now}})
	FROM old
	WHERE l.name = old.name AND old.id = old.claim AND old.token = old.claim_token AND NOT old.breaking
		AND (old.expires_at IS NULL OR old.expires_at > old.now)
	RETURNING old.n, old.name, old.claim, old.claim_token, old.claim_ttl_us, old.claim_metadata
), noted AS (
	INSERT INTO {{history}} (name, at, kind, id, owner, token)
	SELECT old.name, old.now, 'renewed', {{fingerprint:old.id}}, old.owner, old.token
	FROM updated AS u JOIN old USING (n) WHERE $2::boolean
)
SELECT r.n, u.n IS NOT NULL AS renewed, o.n IS NOT NULL OR present.name IS NULL AS known, {{micros:coalesce(o.now, {{now}})}}, {{row:o}}
FROM request AS r
LEFT JOIN old AS o ON o.n = r.n
LEFT JOIN updated AS u ON u.name = r.name AND u.claim = r.claim AND u.claim_token = r.claim_token
	AND u.claim_ttl_us IS NOT DISTINCT FROM r.claim_ttl_us AND u.claim_metadata IS NOT DISTINCT FROM r.claim_metadata
LEFT JOIN {{lease}} AS present ON present.name = r.name
