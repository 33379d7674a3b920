-- The row of a name, or of no name, between two readings of the clock, which stands still within a statement. The floor is read after
-- the row: a sweep raises the floor before it deletes a row.
DECLARE @start bigint = {{clock}}, @version bigint = 0, @token bigint = 0, @id nvarchar(64) = N'', @owner nvarchar(256) = N'',
	@ttl_us bigint = NULL, @metadata nvarchar(max) = N'{}', @acquired_us bigint = NULL, @expires_us bigint = 0, @breaking bit = 0,
	@broken_by nvarchar(256) = N'', @break_reason nvarchar(512) = N'', @ended varbinary(1024) = 0x, @waiters nvarchar(max) = N'', @floor bigint = 0;
SELECT @version = {{was}}, @token = l.token, @id = l.id, @owner = l.owner, @ttl_us = l.ttl_us, @metadata = l.metadata,
	@acquired_us = l.acquired_us, @expires_us = l.expires_us, @breaking = l.breaking, @broken_by = l.broken_by,
	@break_reason = l.break_reason, @ended = l.ended, @waiters = l.waiters FROM {{lease}} AS l WHERE l.name = ?b;
IF @token = 0 SELECT @floor = l.token FROM {{lease}} AS l WHERE l.name = 0x;
SELECT @version, @token, @id, @owner, @ttl_us, @metadata, @acquired_us, @expires_us, @breaking, @broken_by, @break_reason, @ended,
	@waiters, N'', CAST(0 AS bigint), @start, {{clock}}, @floor
