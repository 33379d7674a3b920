-- A row that is there already stays as it is, and one row is not counted then. One of version 0, made by hand, gets another version, so
-- that it can be updated. IGNORE would cut what is too long.
INSERT INTO {{lease}} (name, version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE version = greatest(version, 1)
