CREATE SCHEMA IF NOT EXISTS "{{namespace}}";
-- token is that of the latest holder, 0 if there never was one; id that of the claim that holds the name, empty once
-- released or broken. Without expires_at and ttl_us, in microseconds, a lease is infinite. breaking: broken, and running out.
-- version rises with every change: the clock in microseconds, or more. ended has the IDs that were released or broken, the
-- latest first: see ended.go. waiters are in the order in which they came: see wakeups.go.
CREATE TABLE {{lease}} (
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
COMMENT ON TABLE {{lease}} IS 'Leases, one row per name, kept after release: see github.com/distributedleasing/leasing/providers/sql/postgres. Held while id is not empty and expires_at is in the future or NULL; reserved for the first of waiters while id is empty and expires_at is in the future.';
CREATE TABLE {{history}} (
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
CREATE INDEX "{{table}}_history_by_name" ON {{history}} (name, seq);
-- Who they are that stand among the waiters of a name, or did lately: written when one joins, and read for people.
CREATE TABLE {{waiters}} (
	name    text COLLATE "C" NOT NULL,
	hash    bytea NOT NULL,
	channel bytea NOT NULL,
	id      text NOT NULL,
	owner   text NOT NULL,
	since   timestamptz NOT NULL,
	PRIMARY KEY (name, hash)
);
CREATE TABLE {{schema}} (
	version    int PRIMARY KEY,
	swept      text COLLATE "C" NOT NULL DEFAULT '',
	applied_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
INSERT INTO {{schema}} (version) VALUES ({{version}})
