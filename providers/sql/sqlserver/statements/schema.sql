-- Migrate runs these in one transaction. Times are in microseconds since 1970. token, id, version, ended: as on PostgreSQL. An
-- expires_us of 0 is never; it is that of a reservation while id is empty. waiters: see waitlist.go of package dialect. A name is
-- varbinary: a comparison of texts pads the shorter text with spaces, in every collation.
IF SCHEMA_ID(N'{{namespace}}') IS NULL EXEC (N'CREATE SCHEMA [{{namespace}}]');
CREATE TABLE {{schema}} (
	version    int NOT NULL PRIMARY KEY,
	swept      varbinary(512) NOT NULL DEFAULT 0x,
	applied_at datetime2 NOT NULL DEFAULT SYSUTCDATETIME()
);
CREATE TABLE {{lease}} (
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
CREATE TABLE {{history}} (
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
CREATE INDEX [{{table}}_history_by_name] ON {{history}} (name, seq);
INSERT INTO {{schema}} (version) VALUES ({{version}})
