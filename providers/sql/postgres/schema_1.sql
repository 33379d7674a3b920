CREATE TABLE IF NOT EXISTS {{lease}} (
	name        text COLLATE "C" PRIMARY KEY,
	token       bigint NOT NULL,
	id          text NOT NULL,
	owner       text NOT NULL,
	ttl_us      bigint,
	metadata    jsonb NOT NULL,
	acquired_at timestamptz,
	expires_at  timestamptz,
	breaking    boolean NOT NULL,
	ended       text[] NOT NULL,
	version     bigint NOT NULL
) WITH (fillfactor = 70);
COMMENT ON TABLE {{lease}} IS 'Leases, one row per name, kept after release: see github.com/distributedleasing/leasing/providers/sql. Held while id is not empty and expires_at is in the future or NULL.';
CREATE TABLE IF NOT EXISTS {{history}} (
	seq   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name  text COLLATE "C" NOT NULL,
	at    timestamptz NOT NULL,
	kind  text NOT NULL,
	id    text NOT NULL,
	owner text NOT NULL,
	token bigint NOT NULL
);
CREATE INDEX IF NOT EXISTS {{history_index}} ON {{history}} (name, seq);
CREATE TABLE IF NOT EXISTS {{schema}} (
	version    int PRIMARY KEY,
	applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO {{schema}} (version) VALUES (1) ON CONFLICT DO NOTHING
