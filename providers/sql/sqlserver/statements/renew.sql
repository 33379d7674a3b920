-- Writes many rows on the conditions of update.sql.
UPDATE l SET version = r.written, ttl_us = CAST(r.ttl_us AS bigint), metadata = r.metadata, expires_us = r.expires_us
FROM (VALUES (?b, ?, ?, ?, ?, ?, ?, ?)/*, (?b, ?, ?, ?, ?, ?, ?, ?)*/) AS r (name, version, token, id, written, ttl_us, metadata, expires_us)
INNER JOIN {{lease}} AS l ON l.name = r.name WHERE {{was}} = r.version AND l.token = r.token AND l.id = r.id COLLATE Latin1_General_100_BIN2 AND {{clock}} < ?
