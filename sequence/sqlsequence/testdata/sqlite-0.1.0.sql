CREATE TABLE "sequence_stream" (
	stream            TEXT PRIMARY KEY NOT NULL,
	next_seq          INTEGER NOT NULL DEFAULT 1,
	sealed_through    INTEGER NOT NULL DEFAULT 0,
	recovery_until_us INTEGER NOT NULL DEFAULT 0,
	epoch             TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE "sequence_entry" (
	stream         TEXT NOT NULL,
	seq            INTEGER NOT NULL,
	op_id          TEXT NOT NULL,
	kind           TEXT NOT NULL,
	owner          TEXT NOT NULL,
	state          TEXT NOT NULL,
	token          INTEGER NOT NULL,
	leased_us      INTEGER NOT NULL,
	expires_us     INTEGER NOT NULL,
	closed_us      INTEGER NOT NULL DEFAULT 0,
	filled_us      INTEGER NOT NULL DEFAULT 0,
	renewals       INTEGER NOT NULL DEFAULT 0,
	claim_id       TEXT NOT NULL DEFAULT '',
	claim_owner    TEXT NOT NULL DEFAULT '',
	claim_until_us INTEGER NOT NULL DEFAULT 0,
	attempts       INTEGER NOT NULL DEFAULT 0,
	not_before_us  INTEGER NOT NULL DEFAULT 0,
	last_error     TEXT NOT NULL DEFAULT '',
	origin_seq     INTEGER,
	replaced_by    INTEGER NOT NULL DEFAULT 0,
	reason         TEXT NOT NULL DEFAULT '',
	payload        BLOB,
	work_phase     TEXT NOT NULL DEFAULT '',
	work_data      BLOB,
	uncleaned      INTEGER NOT NULL DEFAULT FALSE,
	granted_us     INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY (stream, seq)
) STRICT;

CREATE TABLE "sequence_manual" (
	id          INTEGER PRIMARY KEY AUTOINCREMENT,
	stream      TEXT NOT NULL,
	seq         INTEGER NOT NULL,
	op_id       TEXT NOT NULL,
	digest      TEXT NOT NULL,
	payload     BLOB,
	reason      TEXT NOT NULL,
	created_us  INTEGER NOT NULL,
	resolved_us INTEGER NOT NULL DEFAULT 0,
	resolved_by TEXT NOT NULL DEFAULT '',
	UNIQUE (stream, seq, op_id, digest)
) STRICT;

CREATE TABLE "sequence_version" (version INTEGER PRIMARY KEY NOT NULL) STRICT;

CREATE UNIQUE INDEX "sequence_entry_op" ON "sequence_entry" (stream, op_id) WHERE origin_seq IS NULL;

CREATE UNIQUE INDEX "sequence_entry_origin" ON "sequence_entry" (stream, origin_seq) WHERE origin_seq IS NOT NULL;

CREATE INDEX "sequence_entry_open" ON "sequence_entry" (stream, seq) WHERE state IN ('leased', 'recovering');

CREATE INDEX "sequence_entry_gaps" ON "sequence_entry" (stream, seq) WHERE state = 'gap';

CREATE INDEX "sequence_entry_uncleaned" ON "sequence_entry" (stream, seq) WHERE uncleaned;

INSERT INTO "sequence_version" (version) VALUES (1);

CREATE TRIGGER "sequence_count" AFTER INSERT ON "sequence_entry" WHEN NEW.state = 'leased' BEGIN UPDATE "sequence_stream" SET next_seq = NEW.seq + 1 WHERE stream = NEW.stream; END;

-- rows
INSERT INTO sequence_stream (stream, next_seq, sealed_through, recovery_until_us, epoch) VALUES ('jobs', 3, 0, 0, '');
INSERT INTO sequence_entry (stream, seq, op_id, kind, owner, state, token, leased_us, expires_us, closed_us, payload, granted_us)
VALUES ('jobs', 1, 'first', 'report', 'host-1', 'committed', 1, 1789000000123456, 1789000030123456, 1789000001123456, X'7061796c6f6164', 1789000000123456);
INSERT INTO sequence_entry (stream, seq, op_id, kind, owner, state, token, leased_us, expires_us, renewals, granted_us)
VALUES ('jobs', 2, 'second', 'report', 'host-2', 'leased', 1, 1789000002123456, 4789000032123456, 7, 1789000002123456);
INSERT INTO sequence_manual (stream, seq, op_id, digest, reason, created_us) VALUES ('jobs', 1, 'first', '', 'a person looks', 1789000003123456);
