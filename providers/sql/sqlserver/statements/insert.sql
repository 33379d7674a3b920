-- A row that is there already is error 2627, and a lost race. So is a floor that a sweep has raised since the row was found missing.
INSERT INTO {{lease}} (name, version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters)
SELECT ?b, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM {{lease}} AS f WHERE f.name = 0x AND f.token > ?)
