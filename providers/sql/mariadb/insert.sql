-- A row that is there already stays as it is, and none is counted then. IGNORE would cut what is too long.
INSERT INTO {{lease}} (name, version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE version = version
