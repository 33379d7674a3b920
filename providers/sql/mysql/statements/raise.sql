-- Makes the floor no lower than a token.
INSERT INTO {{lease}} (name, version, token, id, owner, metadata, expires_us, breaking, broken_by, break_reason, ended, waiters)
VALUES ('', 1, ?, '', '', '{}', 0, 0, '', '', '', '') ON DUPLICATE KEY UPDATE token = greatest(token, VALUES(token))
