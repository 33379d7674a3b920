-- Makes the floor no lower than a token. A floor that another sweep inserts at the same time is error 2627, and this runs again.
DECLARE @floor bigint = ?;
UPDATE f SET token = @floor FROM {{lease}} AS f WHERE f.name = 0x AND f.token < @floor;
INSERT INTO {{lease}} (name, version, token, id, owner, metadata, expires_us, breaking, broken_by, break_reason, ended, waiters)
SELECT 0x, 1, @floor, N'', N'', N'{}', 0, 0, N'', N'', 0x, N'' WHERE NOT EXISTS (SELECT 1 FROM {{lease}} AS f WHERE f.name = 0x)
