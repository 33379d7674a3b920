package lockers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/distributedleasing/leasing"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
)

// postgresSchema has the tables of all peers.
const postgresSchema = "bench_peers"

// poolSize is the size of each client's pool; connections are opened on demand.
const poolSize = 16

func openPostgresPool(ctx context.Context, url string, size int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("want a URL like postgres://user:password@127.0.0.1:5432/postgres")
	}
	config.MaxConns = size
	return pgxpool.NewWithConfig(ctx, config)
}

// openPostgresProvider lets the provider make its own pool, as in most programs.
func openPostgresProvider(ctx context.Context, config Config) (leasing.Provider, func() error, error) {
	provider, err := postgreslease.Open(ctx, postgreslease.Options{
		URL: fmt.Sprintf("%s&pool_max_conns=%d", config.URL, poolSize), Schema: postgresSchema, Create: true,
	})
	if err != nil {
		return nil, nil, err
	}
	return provider, provider.Close, nil
}

// postgresStore implements Store for a PostgreSQL server.
type postgresStore struct{ *pgxpool.Pool }

func openPostgres(url string) (Store, error) {
	pool, err := openPostgresPool(context.Background(), url, 1)
	return postgresStore{pool}, err
}

// Version also returns the settings with the largest effect.
func (s postgresStore) Version(ctx context.Context) (version string, err error) {
	const question = `SELECT format('PostgreSQL %s, fsync %s, synchronous_commit %s',
		current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'))`
	err = s.QueryRow(ctx, question).Scan(&version)
	return version, err
}

// CPU returns the CPU time of all processes of a server on this machine: one parent and its
// children.
func (s postgresStore) CPU(ctx context.Context) (used time.Duration, err error) {
	var backend int
	if err := s.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return 0, err
	}
	parent, _, found := ProcessTimes(backend)
	if !found {
		return 0, nil
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		pid, _ := strconv.Atoi(filepath.Base(process))
		if of, ticks, found := ProcessTimes(pid); found && (of == parent || pid == parent) {
			used += ticks
		}
	}
	return used, err
}

// ProcessTimes reads /proc/PID/stat: the parent of a process, and the time that the process
// and its ended children have used; see proc_pid_stat(5).
func ProcessTimes(pid int) (parent int, used time.Duration, found bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if err != nil || len(fields) < 15 {
		return 0, 0, false
	}
	parent, _ = strconv.Atoi(fields[1])
	for _, field := range fields[11:15] {
		ticks, _ := strconv.Atoi(field)
		used += time.Duration(ticks) * (time.Second / 100)
	}
	return parent, used, true
}

func (s postgresStore) Memory(ctx context.Context) (bytes float64, err error) {
	err = s.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::float8 FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'`, postgresSchema).Scan(&bytes)
	return bytes, err
}

func (s postgresStore) Log(ctx context.Context) (bytes int64, err error) {
	err = s.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::int8").Scan(&bytes)
	return bytes, err
}

func (s postgresStore) Sweep(ctx context.Context, _ string) error {
	_, err := s.Exec(ctx, "DROP SCHEMA IF EXISTS "+postgresSchema+" CASCADE")
	return err
}

func (s postgresStore) Close() error {
	s.Pool.Close()
	return nil
}

// openPostgresUpsert opens the lock that most people write first: a row that is inserted, or taken
// over once it has expired, and deleted at the release.
func openPostgresUpsert(ctx context.Context, config Config) (Locker, error) {
	pool, err := openPostgresPool(ctx, config.URL, poolSize)
	if err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS bench_peers;
CREATE TABLE IF NOT EXISTS bench_peers.bare (name text PRIMARY KEY, owner text NOT NULL, expires_at timestamptz NOT NULL)`)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return upsertLocker{
		keeper: newBatchKeeper(config.TTL, func(ctx context.Context, names, owners []string) error {
			_, err := pool.Exec(ctx, `UPDATE bench_peers.bare SET expires_at = clock_timestamp() + $3
FROM unnest($1::text[], $2::text[]) AS r(name, owner) WHERE bare.name = r.name AND bare.owner = r.owner`, names, owners, config.TTL)
			return err
		}),
		take: func(ctx context.Context, name, owner string) (taken bool, err error) {
			tag, err := pool.Exec(ctx, `INSERT INTO bench_peers.bare VALUES ($1, $2, clock_timestamp() + $3)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at WHERE bare.expires_at <= clock_timestamp()`,
				name, owner, config.TTL)
			return tag.RowsAffected() == 1, err
		},
		free: func(ctx context.Context, name, owner string) (freed bool, err error) {
			tag, err := pool.Exec(ctx, "DELETE FROM bench_peers.bare WHERE name = $1 AND owner = $2", name, owner)
			return tag.RowsAffected() == 1, err
		},
		close: func() error { pool.Close(); return nil },
	}, nil
}

// openAdvisory opens a locker that uses pg_advisory_lock, with a connection for each lock and each waiter.
func openAdvisory(ctx context.Context, config Config) (Locker, error) {
	pool, err := openPostgresPool(ctx, config.URL, 128)
	return advisoryLocker{pool}, err
}

type advisoryLocker struct{ pool *pgxpool.Pool }

func (l advisoryLocker) Try(ctx context.Context, name string) (Lock, error) {
	return l.lock(ctx, name, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))")
}

func (l advisoryLocker) Acquire(ctx context.Context, name string) (Lock, error) {
	return l.lock(ctx, name, "SELECT pg_advisory_lock(hashtextextended($1, 0)) IS NOT NULL")
}

func (l advisoryLocker) lock(ctx context.Context, name, statement string) (Lock, error) {
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	var locked bool
	if err = conn.QueryRow(ctx, statement, name).Scan(&locked); err == nil && locked {
		return advisoryLock{conn, name}, nil
	}
	conn.Release()
	if err == nil {
		err = ErrTaken
	}
	return nil, err
}

func (l advisoryLocker) Close() error {
	l.pool.Close()
	return nil
}

type advisoryLock struct {
	conn *pgxpool.Conn
	name string
}

// Keep does nothing: the lock lasts as long as its connection.
func (advisoryLock) Keep() {}

func (l advisoryLock) Kept() bool { return !l.conn.Conn().IsClosed() }

func (l advisoryLock) Release(ctx context.Context) error {
	defer l.conn.Release()
	var freed bool
	err := l.conn.QueryRow(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", l.name).Scan(&freed)
	if err == nil && !freed {
		err = errGone
	}
	return err
}
