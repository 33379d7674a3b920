-- settings, before each batch
SET NOCOUNT ON; SET XACT_ABORT ON; SET IMPLICIT_TRANSACTIONS OFF; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET LOCK_TIMEOUT 2000;
GO

-- exists
SELECT CAST(count(*) AS bit) FROM sys.objects AS o INNER JOIN sys.schemas AS s ON s.schema_id = o.schema_id
WHERE o.name = @p1 AND s.name = @p2 AND o.type IN ('U', 'V', 'SN');
GO

-- forget 2
DELETE l FROM (VALUES (@p1, @p2), (@p3, @p4)) AS r (name, version) INNER JOIN [leasing].[lease] AS l ON l.name = r.name WHERE CASE WHEN l.version < 1 THEN 1 ELSE l.version END = r.version;
SET @written = @@ROWCOUNT;
GO

-- hand
SELECT swept FROM [leasing].[lease_version] WHERE version = 1;
GO

-- history
SELECT h.seq, h.at_us, h.kind, h.id, h.owner, h.token, h.actor, h.reason FROM [leasing].[lease_history] AS h
WHERE h.name = @p1 AND h.seq > @p2 ORDER BY h.seq OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY;
GO

-- insert
BEGIN TRANSACTION;
INSERT INTO [leasing].[lease] (name, version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters)
SELECT @p1, @p2, @p3, @p4, @p5, @p6, @p7, @p8, @p9, @p10, @p11, @p12, @p13, @p14 WHERE NOT EXISTS (SELECT 1 FROM [leasing].[lease] AS f WHERE f.name = 0x AND f.token > @p15);
SET @written = @@ROWCOUNT;
IF @written = @p16 AND DATEDIFF_BIG(MICROSECOND, CAST('19700101' AS datetime2), SYSUTCDATETIME()) < @p17 COMMIT TRANSACTION ELSE BEGIN ROLLBACK TRANSACTION; SET @written = 0 END;
GO

-- keyed
SELECT CAST(count(*) AS bit) FROM sys.indexes AS i WHERE i.object_id = OBJECT_ID(N'[leasing].[lease]') AND i.is_primary_key = 1;
GO

-- list
DECLARE @start bigint = DATEDIFF_BIG(MICROSECOND, CAST('19700101' AS datetime2), SYSUTCDATETIME());
SELECT l.name, CASE WHEN l.version < 1 THEN 1 ELSE l.version END, l.token, l.id, l.owner, l.ttl_us, l.metadata, l.acquired_us, l.expires_us, l.breaking, l.broken_by, l.break_reason,
	l.ended, l.waiters, N'', CAST(0 AS bigint), @start, @start, CAST(0 AS bigint) FROM [leasing].[lease] AS l WHERE l.name >= @p1 AND l.name > @p2 AND l.name < @p3 AND l.token > 0
	AND (@p4 = 0 OR l.id <> N'' AND (l.expires_us = 0 OR l.expires_us > @start)) ORDER BY l.name OFFSET 0 ROWS FETCH NEXT @p5 ROWS ONLY;
GO

-- lock
DECLARE @granted int;
EXEC @granted = sp_getapplock @Resource = @p1, @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 5000;
SELECT @granted;
GO

-- move_hand
UPDATE [leasing].[lease_version] SET swept = @p1 WHERE version = 1;
GO

-- newest
SELECT h.seq, h.at_us, h.kind, h.id, h.owner, h.token, h.actor, h.reason FROM [leasing].[lease_history] AS h
WHERE h.name = @p1 AND h.seq < @p2 ORDER BY h.seq DESC OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY;
GO

-- note 2
INSERT INTO [leasing].[lease_history] (name, at_us, kind, id, owner, token, actor, reason) VALUES (@p1, @p2, @p3, @p4, @p5, @p6, @p7, @p8), (@p9, @p10, @p11, @p12, @p13, @p14, @p15, @p16);
GO

-- page
DECLARE @start bigint = DATEDIFF_BIG(MICROSECOND, CAST('19700101' AS datetime2), SYSUTCDATETIME());
SELECT l.name, CASE WHEN l.version < 1 THEN 1 ELSE l.version END, l.token, l.id, l.owner, l.ttl_us, l.metadata, l.acquired_us, l.expires_us, l.breaking, l.broken_by, l.break_reason,
	l.ended, l.waiters, N'', CAST(0 AS bigint), @start, @start, CAST(0 AS bigint) FROM [leasing].[lease] AS l WHERE l.name > @p1 ORDER BY l.name OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY;
GO

-- raise
DECLARE @floor bigint = @p1;
UPDATE f SET token = @floor FROM [leasing].[lease] AS f WHERE f.name = 0x AND f.token < @floor;
INSERT INTO [leasing].[lease] (name, version, token, id, owner, metadata, expires_us, breaking, broken_by, break_reason, ended, waiters)
SELECT 0x, 1, @floor, N'', N'', N'{}', 0, 0, N'', N'', 0x, N'' WHERE NOT EXISTS (SELECT 1 FROM [leasing].[lease] AS f WHERE f.name = 0x);
GO

-- read
DECLARE @start bigint = DATEDIFF_BIG(MICROSECOND, CAST('19700101' AS datetime2), SYSUTCDATETIME()), @version bigint = 0, @token bigint = 0, @id nvarchar(64) = N'', @owner nvarchar(256) = N'',
	@ttl_us bigint = NULL, @metadata nvarchar(max) = N'{}', @acquired_us bigint = NULL, @expires_us bigint = 0, @breaking bit = 0,
	@broken_by nvarchar(256) = N'', @break_reason nvarchar(512) = N'', @ended varbinary(1024) = 0x, @waiters nvarchar(max) = N'', @floor bigint = 0;
SELECT @version = CASE WHEN l.version < 1 THEN 1 ELSE l.version END, @token = l.token, @id = l.id, @owner = l.owner, @ttl_us = l.ttl_us, @metadata = l.metadata,
	@acquired_us = l.acquired_us, @expires_us = l.expires_us, @breaking = l.breaking, @broken_by = l.broken_by,
	@break_reason = l.break_reason, @ended = l.ended, @waiters = l.waiters FROM [leasing].[lease] AS l WHERE l.name = @p1;
IF @token = 0 SELECT @floor = l.token FROM [leasing].[lease] AS l WHERE l.name = 0x;
SELECT @version, @token, @id, @owner, @ttl_us, @metadata, @acquired_us, @expires_us, @breaking, @broken_by, @break_reason, @ended,
	@waiters, N'', CAST(0 AS bigint), @start, DATEDIFF_BIG(MICROSECOND, CAST('19700101' AS datetime2), SYSUTCDATETIME()), @floor;
GO

-- renew 2
BEGIN TRANSACTION;
UPDATE l SET version = r.written, ttl_us = CAST(r.ttl_us AS bigint), metadata = r.metadata, expires_us = r.expires_us
FROM (VALUES (@p1, @p2, @p3, @p4, @p5, @p6, @p7, @p8), (@p9, @p10, @p11, @p12, @p13, @p14, @p15, @p16)) AS r (name, version, token, id, written, ttl_us, metadata, expires_us)
INNER JOIN [leasing].[lease] AS l ON l.name = r.name WHERE CASE WHEN l.version < 1 THEN 1 ELSE l.version END = r.version AND l.token = r.token AND l.id = r.id COLLATE Latin1_General_100_BIN2 AND DATEDIFF_BIG(MICROSECOND, CAST('19700101' AS datetime2), SYSUTCDATETIME()) < @p17;
SET @written = @@ROWCOUNT;
IF @written = @p18 AND DATEDIFF_BIG(MICROSECOND, CAST('19700101' AS datetime2), SYSUTCDATETIME()) < @p19 COMMIT TRANSACTION ELSE BEGIN ROLLBACK TRANSACTION; SET @written = 0 END;
GO

-- rows 2
DECLARE @start bigint = DATEDIFF_BIG(MICROSECOND, CAST('19700101' AS datetime2), SYSUTCDATETIME());
SELECT l.name, CASE WHEN l.version < 1 THEN 1 ELSE l.version END, l.token, l.id, l.owner, l.ttl_us, l.metadata, l.acquired_us, l.expires_us, l.breaking, l.broken_by, l.break_reason,
	l.ended, l.waiters, N'', CAST(0 AS bigint), @start, @start, CAST(0 AS bigint) FROM [leasing].[lease] AS l WHERE l.name IN (@p1, @p2);
GO

-- schema 1
IF SCHEMA_ID(N'leasing') IS NULL EXEC (N'CREATE SCHEMA [leasing]');
GO

-- schema 2
CREATE TABLE [leasing].[lease_version] (
	version    int NOT NULL PRIMARY KEY,
	swept      varbinary(512) NOT NULL DEFAULT 0x,
	applied_at datetime2 NOT NULL DEFAULT SYSUTCDATETIME()
);
GO

-- schema 3
CREATE TABLE [leasing].[lease] (
	name         varbinary(512) NOT NULL PRIMARY KEY,
	version      bigint NOT NULL,
	token        bigint NOT NULL,
	id           nvarchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL,
	owner        nvarchar(256) COLLATE Latin1_General_100_BIN2 NOT NULL,
	ttl_us       bigint NULL,
	metadata     nvarchar(max) COLLATE Latin1_General_100_BIN2 NOT NULL,
	acquired_us  bigint NULL,
	expires_us   bigint NOT NULL,
	breaking     bit NOT NULL,
	broken_by    nvarchar(256) COLLATE Latin1_General_100_BIN2 NOT NULL,
	break_reason nvarchar(512) COLLATE Latin1_General_100_BIN2 NOT NULL,
	ended        varbinary(1024) NOT NULL,
	waiters      nvarchar(max) COLLATE Latin1_General_100_BIN2 NOT NULL
);
GO

-- schema 4
CREATE TABLE [leasing].[lease_history] (
	seq    bigint IDENTITY(1, 1) NOT NULL PRIMARY KEY,
	name   varbinary(512) NOT NULL,
	at_us  bigint NOT NULL,
	kind   nvarchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL,
	id     nvarchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL,
	owner  nvarchar(256) COLLATE Latin1_General_100_BIN2 NOT NULL,
	token  bigint NOT NULL,
	actor  nvarchar(256) COLLATE Latin1_General_100_BIN2 NOT NULL,
	reason nvarchar(512) COLLATE Latin1_General_100_BIN2 NOT NULL
);
GO

-- schema 5
CREATE INDEX [lease_history_by_name] ON [leasing].[lease_history] (name, seq);
GO

-- schema 6
INSERT INTO [leasing].[lease_version] (version) VALUES (1);
GO

-- trim
DELETE h FROM (SELECT TOP (@p1) o.seq FROM [leasing].[lease_history] AS o ORDER BY o.seq) AS oldest INNER JOIN [leasing].[lease_history] AS h ON h.seq = oldest.seq
WHERE h.at_us < DATEDIFF_BIG(MICROSECOND, CAST('19700101' AS datetime2), SYSUTCDATETIME()) - @p2;
SET @written = @@ROWCOUNT;
GO

-- update
BEGIN TRANSACTION;
UPDATE l SET version = @p1, token = @p2, id = @p3, owner = @p4, ttl_us = @p5, metadata = @p6, acquired_us = @p7, expires_us = @p8,
	breaking = @p9, broken_by = @p10, break_reason = @p11, ended = @p12, waiters = @p13
FROM [leasing].[lease] AS l WHERE l.name = @p14 AND CASE WHEN l.version < 1 THEN 1 ELSE l.version END = @p15 AND l.token = @p16 AND l.id = @p17 AND DATEDIFF_BIG(MICROSECOND, CAST('19700101' AS datetime2), SYSUTCDATETIME()) < @p18;
SET @written = @@ROWCOUNT;
IF @written = @p19 AND DATEDIFF_BIG(MICROSECOND, CAST('19700101' AS datetime2), SYSUTCDATETIME()) < @p20 COMMIT TRANSACTION ELSE BEGIN ROLLBACK TRANSACTION; SET @written = 0 END;
GO

-- update with two entries
BEGIN TRANSACTION;
UPDATE l SET version = @p1, token = @p2, id = @p3, owner = @p4, ttl_us = @p5, metadata = @p6, acquired_us = @p7, expires_us = @p8,
	breaking = @p9, broken_by = @p10, break_reason = @p11, ended = @p12, waiters = @p13
FROM [leasing].[lease] AS l WHERE l.name = @p14 AND CASE WHEN l.version < 1 THEN 1 ELSE l.version END = @p15 AND l.token = @p16 AND l.id = @p17 AND DATEDIFF_BIG(MICROSECOND, CAST('19700101' AS datetime2), SYSUTCDATETIME()) < @p18;
SET @written = @@ROWCOUNT;
IF @written > 0 INSERT INTO [leasing].[lease_history] (name, at_us, kind, id, owner, token, actor, reason) VALUES (@p19, @p20, @p21, @p22, @p23, @p24, @p25, @p26), (@p27, @p28, @p29, @p30, @p31, @p32, @p33, @p34);
IF @written = @p35 AND DATEDIFF_BIG(MICROSECOND, CAST('19700101' AS datetime2), SYSUTCDATETIME()) < @p36 COMMIT TRANSACTION ELSE BEGIN ROLLBACK TRANSACTION; SET @written = 0 END;
GO

-- version
SELECT coalesce(max(version), 0) FROM [leasing].[lease_version];
GO

-- without waiting
SET NOCOUNT ON; SET XACT_ABORT ON; SET IMPLICIT_TRANSACTIONS OFF; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET LOCK_TIMEOUT 0;
SELECT coalesce(max(version), 0) FROM [leasing].[lease_version];
GO
