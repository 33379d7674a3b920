CREATE SCHEMA "infra";

CREATE TABLE "infra"."sequence_stream" (
	stream            TEXT COLLATE "C" PRIMARY KEY NOT NULL,
	next_seq          BIGINT NOT NULL DEFAULT 1,
	sealed_through    BIGINT NOT NULL DEFAULT 0,
	recovery_until_us BIGINT NOT NULL DEFAULT 0,
	epoch             TEXT COLLATE "C" NOT NULL DEFAULT ''
);

CREATE TABLE "infra"."sequence_entry" (
	stream         TEXT COLLATE "C" NOT NULL,
	seq            BIGINT NOT NULL,
	op_id          TEXT COLLATE "C" NOT NULL,
	kind           TEXT COLLATE "C" NOT NULL,
	owner          TEXT COLLATE "C" NOT NULL,
	state          TEXT COLLATE "C" NOT NULL,
	token          BIGINT NOT NULL,
	leased_us      BIGINT NOT NULL,
	expires_us     BIGINT NOT NULL,
	closed_us      BIGINT NOT NULL DEFAULT 0,
	filled_us      BIGINT NOT NULL DEFAULT 0,
	renewals       BIGINT NOT NULL DEFAULT 0,
	claim_id       TEXT COLLATE "C" NOT NULL DEFAULT '',
	claim_owner    TEXT COLLATE "C" NOT NULL DEFAULT '',
	claim_until_us BIGINT NOT NULL DEFAULT 0,
	attempts       BIGINT NOT NULL DEFAULT 0,
	not_before_us  BIGINT NOT NULL DEFAULT 0,
	last_error     TEXT COLLATE "C" NOT NULL DEFAULT '',
	origin_seq     BIGINT,
	replaced_by    BIGINT NOT NULL DEFAULT 0,
	reason         TEXT COLLATE "C" NOT NULL DEFAULT '',
	payload        BYTEA,
	work_phase     TEXT COLLATE "C" NOT NULL DEFAULT '',
	work_data      BYTEA,
	uncleaned      BOOLEAN NOT NULL DEFAULT FALSE,
	granted_us     BIGINT NOT NULL DEFAULT 0,
	PRIMARY KEY (stream, seq)
);

CREATE TABLE "infra"."sequence_manual" (
	id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	stream      TEXT COLLATE "C" NOT NULL,
	seq         BIGINT NOT NULL,
	op_id       TEXT COLLATE "C" NOT NULL,
	digest      TEXT COLLATE "C" NOT NULL,
	payload     BYTEA,
	reason      TEXT COLLATE "C" NOT NULL,
	created_us  BIGINT NOT NULL,
	resolved_us BIGINT NOT NULL DEFAULT 0,
	resolved_by TEXT COLLATE "C" NOT NULL DEFAULT '',
	UNIQUE (stream, seq, op_id, digest)
);

CREATE TABLE "infra"."sequence_version" (version BIGINT PRIMARY KEY NOT NULL);

CREATE UNIQUE INDEX "sequence_entry_op" ON "infra"."sequence_entry" (stream, op_id) WHERE origin_seq IS NULL;

CREATE UNIQUE INDEX "sequence_entry_origin" ON "infra"."sequence_entry" (stream, origin_seq) WHERE origin_seq IS NOT NULL;

CREATE INDEX "sequence_entry_open" ON "infra"."sequence_entry" (stream, seq) WHERE state IN ('leased', 'recovering');

CREATE INDEX "sequence_entry_gaps" ON "infra"."sequence_entry" (stream, seq) WHERE state = 'gap';

CREATE INDEX "sequence_entry_uncleaned" ON "infra"."sequence_entry" (stream, seq) WHERE uncleaned;

INSERT INTO "infra"."sequence_version" (version) VALUES (1);

-- rows
INSERT INTO infra.sequence_stream (stream, next_seq, sealed_through, recovery_until_us, epoch) VALUES ('jobs', 3, 0, 0, '');
INSERT INTO infra.sequence_entry (stream, seq, op_id, kind, owner, state, token, leased_us, expires_us, closed_us, payload, granted_us)
VALUES ('jobs', 1, 'first', 'report', 'host-1', 'committed', 1, 1789000000123456, 1789000030123456, 1789000001123456, '\x7061796c6f6164', 1789000000123456);
INSERT INTO infra.sequence_entry (stream, seq, op_id, kind, owner, state, token, leased_us, expires_us, renewals, granted_us)
VALUES ('jobs', 2, 'second', 'report', 'host-2', 'leased', 1, 1789000002123456, 4789000032123456, 7, 1789000002123456);
INSERT INTO infra.sequence_manual (stream, seq, op_id, digest, reason, created_us) VALUES ('jobs', 1, 'first', '', 'a person looks', 1789000003123456);
