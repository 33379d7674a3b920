CREATE SCHEMA IF NOT EXISTS "golden";

CREATE TABLE "golden"."lease" (
	name         text COLLATE "C" PRIMARY KEY,
	token        bigint NOT NULL,
	id           text NOT NULL,
	owner        text NOT NULL,
	ttl_us       bigint,
	metadata     jsonb NOT NULL,
	acquired_at  timestamptz,
	expires_at   timestamptz,
	breaking     boolean NOT NULL,
	broken_by    text NOT NULL,
	break_reason text NOT NULL,
	version      bigint NOT NULL,
	ended        bytea NOT NULL,
	waiters      bytea NOT NULL DEFAULT ''
) WITH (fillfactor = 70);

COMMENT ON TABLE "golden"."lease" IS 'Leases, one row per name, kept after release: see github.com/distributedleasing/leasing/providers/sql/postgres. Held while id is not empty and expires_at is in the future or NULL; reserved for the first of waiters while id is empty and expires_at is in the future.';

CREATE TABLE "golden"."lease_history" (
	seq    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name   text COLLATE "C" NOT NULL,
	at     timestamptz NOT NULL,
	kind   text NOT NULL,
	id     text NOT NULL,
	owner  text NOT NULL,
	token  bigint NOT NULL,
	actor  text NOT NULL DEFAULT '',
	reason text NOT NULL DEFAULT ''
);

CREATE INDEX "lease_history_by_name" ON "golden"."lease_history" (name, seq);

CREATE TABLE "golden"."lease_waiters" (
	name    text COLLATE "C" NOT NULL,
	hash    bytea NOT NULL,
	channel bytea NOT NULL,
	id      text NOT NULL,
	owner   text NOT NULL,
	since   timestamptz NOT NULL,
	PRIMARY KEY (name, hash)
);

CREATE TABLE "golden"."lease_version" (
	version    int PRIMARY KEY,
	swept      text COLLATE "C" NOT NULL DEFAULT '',
	applied_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);

INSERT INTO "golden"."lease_version" (version) VALUES (1);

-- rows
INSERT INTO "golden"."lease" (name, version, token, id, owner, ttl_us, metadata, acquired_at, expires_at, breaking, broken_by, break_reason, ended, waiters)
VALUES ('free', 1789000000123456, 1789000000123455, '', '', NULL, '{}', NULL, NULL, false, '', '', '\xdeb0e38ced1e41de006aa1f940', '');
INSERT INTO "golden"."lease" (name, version, token, id, owner, ttl_us, metadata, acquired_at, expires_at, breaking, broken_by, break_reason, ended, waiters)
VALUES ('held', 1789000000123456, 1789000000123456, '00000000000000000000000000000000', 'host-1', 30000000, '{"region":"north"}', to_timestamp(1789000000123456::numeric / 1000000), to_timestamp(4789000032123456::numeric / 1000000), false, '', '', '\x', '');
INSERT INTO "golden"."lease" (name, version, token, id, owner, ttl_us, metadata, acquired_at, expires_at, breaking, broken_by, break_reason, ended, waiters)
VALUES ('forever', 1789000000123457, 1789000000123457, '11111111111111111111111111111111', 'host-2', NULL, '{}', to_timestamp(1789000000123457::numeric / 1000000), NULL, false, '', '', '\x', '');
INSERT INTO "golden"."lease" (name, version, token, id, owner, ttl_us, metadata, acquired_at, expires_at, breaking, broken_by, break_reason, ended, waiters)
VALUES ('broken', 1789000000123458, 1789000000123458, '22222222222222222222222222222222', 'host-3', 30000000, '{}', to_timestamp(1789000000123458::numeric / 1000000), to_timestamp(4789000032123456::numeric / 1000000), true, 'operator', 'it hangs', '\x', '');
