CREATE TABLE "lease" (
	name         TEXT PRIMARY KEY NOT NULL COLLATE BINARY,
	version      INTEGER NOT NULL,
	token        INTEGER NOT NULL,
	id           TEXT NOT NULL,
	owner        TEXT NOT NULL,
	ttl_us       INTEGER,
	metadata     TEXT NOT NULL,
	acquired_us  INTEGER,
	expires_us   INTEGER NOT NULL,
	boot         TEXT NOT NULL,
	boot_us      INTEGER NOT NULL,
	breaking     INTEGER NOT NULL,
	broken_by    TEXT NOT NULL,
	break_reason TEXT NOT NULL,
	ended        BLOB NOT NULL,
	waiters      TEXT NOT NULL
) STRICT;

CREATE TABLE "lease_history" (
	seq    INTEGER PRIMARY KEY AUTOINCREMENT,
	name   TEXT NOT NULL COLLATE BINARY,
	at_us  INTEGER NOT NULL,
	kind   TEXT NOT NULL,
	id     TEXT NOT NULL,
	owner  TEXT NOT NULL,
	token  INTEGER NOT NULL,
	actor  TEXT NOT NULL,
	reason TEXT NOT NULL
) STRICT;

CREATE INDEX "lease_history_by_name" ON "lease_history" (name, seq);

CREATE TABLE "lease_version" (
	version    INTEGER PRIMARY KEY NOT NULL,
	swept      TEXT NOT NULL DEFAULT '',
	applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT;

INSERT INTO "lease_version" (version) VALUES (1);

-- rows
INSERT INTO "lease" (name, version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters, boot, boot_us)
VALUES ('free', 1789000000123456, 1789000000123455, '', '', NULL, '{}', NULL, 0, 0, '', '', X'deb0e38ced1e41de006aa1f940', '', '', 0);
INSERT INTO "lease" (name, version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters, boot, boot_us)
VALUES ('held', 1789000000123456, 1789000000123456, '00000000000000000000000000000000', 'host-1', 30000000, '{"region":"north"}', 1789000000123456, 4789000032123456, 0, '', '', X'', '', '', 0);
INSERT INTO "lease" (name, version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters, boot, boot_us)
VALUES ('forever', 1789000000123457, 1789000000123457, '11111111111111111111111111111111', 'host-2', NULL, '{}', 1789000000123457, 0, 0, '', '', X'', '', '', 0);
INSERT INTO "lease" (name, version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters, boot, boot_us)
VALUES ('broken', 1789000000123458, 1789000000123458, '22222222222222222222222222222222', 'host-3', 30000000, '{}', 1789000000123458, 4789000032123456, 1, 'operator', 'it hangs', X'', '', '', 0);
