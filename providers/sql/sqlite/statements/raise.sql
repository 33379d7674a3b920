-- Makes the floor no lower than a token.
INSERT INTO {{lease}} (name, version, token, id, owner, metadata, expires_us, breaking, broken_by, break_reason, ended, waiters, boot, boot_us)
VALUES ('', 1, ?, '', '', '{}', 0, 0, '', '', x'', '', '', 0) ON CONFLICT (name) DO UPDATE SET token = max(token, excluded.token)
