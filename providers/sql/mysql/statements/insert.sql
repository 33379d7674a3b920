-- A row that is there already stays as it is, and one row is not counted then. One of version 0, made by hand, gets another version, so
-- that it can be updated. A floor that a sweep has raised since the row was found missing is a lost race. IGNORE would cut what is too long.
INSERT INTO {{lease}} (name, version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM (SELECT 1) AS one
WHERE NOT EXISTS (SELECT 1 FROM {{lease}} AS f WHERE f.name = '' AND f.token > ?)
ON DUPLICATE KEY UPDATE {{lease}}.version = greatest({{lease}}.version, 1)
