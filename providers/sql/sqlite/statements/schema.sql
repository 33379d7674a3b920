-- An expires_us of 0 is never. boot and boot_us are the deadline on the BOOTTIME clock.
CREATE TABLE {{lease}} (
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
CREATE TABLE {{history}} (
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
CREATE INDEX "{{table}}_history_by_name" ON {{history}} (name, seq);
CREATE TABLE {{schema}} (
	version    INTEGER PRIMARY KEY NOT NULL,
	swept      TEXT NOT NULL DEFAULT '',
	applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT;
INSERT INTO {{schema}} (version) VALUES ({{version}})
