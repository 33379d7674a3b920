-- An error if the table has lost its key.
INSERT INTO {{lease}} (name, version, token, id, owner, ttl_us, metadata, acquired_us, expires_us,
	breaking, broken_by, break_reason, ended, waiters, boot, boot_us)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING
