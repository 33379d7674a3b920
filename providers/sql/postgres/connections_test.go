package postgreslease

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
)

// otherDriver makes pgx look like another driver.
type otherDriver struct{ sqldriver.Connector }

func (otherDriver) Driver() sqldriver.Driver { return foreignDriver{} }

// pools are the ways to open a database: the provider's own pool, and the pools of an application. on runs a statement on n
// connections at the same time, and leaves them idle.
var pools = map[string]func(t *testing.T, rawURL, schema string) (p *Provider, on func(n int, statement string)){
	"own": func(t *testing.T, rawURL, schema string) (*Provider, func(int, string)) {
		p := opened(t, Options{URL: withParameters(rawURL, "schema", schema)})
		return p, onDB(t, backendOf(p).db.db)
	},
	"pgxpool": func(t *testing.T, rawURL, schema string) (*Provider, func(int, string)) {
		pool, err := pgxpool.New(bounded(t), rawURL)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		return opened(t, Options{Pool: pool, Schema: schema}), func(n int, statement string) {
			conns := make([]*pgxpool.Conn, n)
			for i := range conns {
				conns[i], err = pool.Acquire(bounded(t))
				require.NoError(t, err)
				_, err = conns[i].Exec(bounded(t), statement)
				require.NoError(t, err)
			}
			for _, conn := range conns {
				conn.Release()
			}
		}
	},
	"sql.DB": func(t *testing.T, rawURL, schema string) (*Provider, func(int, string)) {
		config, err := pgx.ParseConfig(rawURL)
		require.NoError(t, err)
		db := stdlibDB(t, config)
		db.SetMaxIdleConns(8)
		return opened(t, Options{DB: db, Schema: schema}), onDB(t, db)
	},
	"sql.DB of another driver": func(t *testing.T, rawURL, schema string) (*Provider, func(int, string)) {
		config, err := pgx.ParseConfig(rawURL)
		require.NoError(t, err)
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
		db := sql.OpenDB(otherDriver{stdlib.GetConnector(*config)})
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		db.SetMaxIdleConns(8)
		return opened(t, Options{DB: db, Schema: schema}), onDB(t, db)
	},
}

func opened(t *testing.T, o Options) *Provider {
	p, err := Open(bounded(t), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func onDB(t *testing.T, db *sql.DB) func(int, string) {
	return func(n int, statement string) {
		conns := make([]*sql.Conn, n)
		for i := range conns {
			var err error
			conns[i], err = db.Conn(bounded(t))
			require.NoError(t, err)
			_, err = conns[i].ExecContext(bounded(t), statement)
			require.NoError(t, err)
		}
		for _, conn := range conns {
			require.NoError(t, conn.Close())
		}
	}
}

// onPools runs a test on each of the pools. The tables exist.
func onPools(t *testing.T, test func(t *testing.T, open func(rawURL string) (*Provider, func(int, string)), schema string)) {
	for name, open := range pools {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema := newSchema(t)
			openTest(t, withParameters(postgresURL(t), "schema", schema), nil)
			test(t, func(rawURL string) (*Provider, func(int, string)) { return open(t, rawURL, schema) }, schema)
		})
	}
}

// T150: the sessions of a pool stay read-only, because the server was a standby when they began, or the endpoint has moved. New
// sessions can write. So idle connections are closed, including those of an application's pool.
func TestTrap_T150_ConnectionsOfNoUseAreClosed(t *testing.T) {
	onPools(t, func(t *testing.T, open func(string) (*Provider, func(int, string)), schema string) {
		role := "reader" + schema
		execPostgres(t, "CREATE ROLE "+role+" SUPERUSER LOGIN PASSWORD 'geheim'", "ALTER ROLE "+role+" SET default_transaction_read_only = on")
		t.Cleanup(func() { execPostgres(t, "DROP ROLE "+role) })
		u, err := url.Parse(postgresURL(t))
		require.NoError(t, err)
		u.User = url.UserPassword(role, "geheim")
		p, on := open(u.String())
		on(4, "SELECT 1")
		_, refused := p.Acquire(bounded(t), claimOf("n", time.Minute))
		require.ErrorIs(t, refused, abstractions.ErrThrottled)
		on(4, "SELECT 1")
		execPostgres(t, "ALTER ROLE "+role+" RESET default_transaction_read_only")

		if _, err = p.Acquire(bounded(t), claimOf("n", time.Minute)); err != nil {
			_, err = p.Acquire(bounded(t), claimOf("n", time.Minute))
		}
		require.NoError(t, err)
		require.ErrorContains(t, refused, "target_session_attrs")
	})
}

// T151: a gateway has dropped idle connections. A request gets a working connection within its timeout, even if many connections
// were dropped.
func TestTrap_T151_AConnectionThatWasIdleIsChecked(t *testing.T) {
	onPools(t, func(t *testing.T, open func(string) (*Provider, func(int, string)), _ string) {
		u, err := url.Parse(postgresURL(t))
		require.NoError(t, err)
		gateway := servertest.NewGateway(t, u.Host)
		u.Host = gateway.Addr()
		p, on := open(u.String())
		claim, err := p.Acquire(bounded(t), claimOf("n", time.Hour))
		require.NoError(t, err)
		on(4, "SELECT 1")
		<-time.After(1100 * time.Millisecond) // pools measure idle time by the real clock
		gateway.Forget()
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		require.NoError(t, p.Release(ctx, releaseOf(claim)))
	})
}

// T152: the application, or a pooler, discards the statements that pgx has prepared on a connection. The provider then sends
// these statements unprepared, and no call fails.
func TestTrap_T152_PreparedStatementsAreForgotten(t *testing.T) {
	for _, forget := range []string{"DEALLOCATE ALL", "DISCARD ALL"} {
		t.Run(forget, func(t *testing.T) {
			onPools(t, func(t *testing.T, open func(string) (*Provider, func(int, string)), _ string) {
				p, on := open(postgresURL(t))
				for range 3 {
					claim, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
					require.NoError(t, err)
					on(1, forget)
					_, err = p.Renew(bounded(t), renewalOf(claim))
					require.NoError(t, err)
					on(1, forget)
					require.NoError(t, p.Release(bounded(t), releaseOf(claim)))
					on(1, forget)
				}
			})
		})
	}
}

func pgbouncerURL(t *testing.T) string {
	pooler := os.Getenv("LEASING_TEST_PGBOUNCER")
	if pooler == "" {
		t.Skip("LEASING_TEST_PGBOUNCER names no pooler in transaction mode")
	}
	return pooler
}

// T152, T153: the defaults work behind PgBouncer in transaction mode. This version (1.18) does not support prepared statements,
// and answers 42P05 or 26000. Waiters poll instead of listening. No LISTEN and no lock remain on a session that serves other
// clients.
func TestTrap_T153_DefaultsBehindPgBouncer(t *testing.T) {
	rawURL, schema := pgbouncerURL(t), newSchema(t)
	p := openTest(t, withParameters(rawURL, "schema", schema), nil)
	other := openTest(t, withParameters(rawURL, "schema", schema), nil)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 20 {
				claim, err := p.Acquire(bounded(t), claimOf(fmt.Sprint("n", i), time.Minute))
				if err == nil {
					err = p.Release(bounded(t), releaseOf(claim))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()

	b := backendOf(p)
	claim, err := other.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	waiting, stop := context.WithCancel(bounded(t))
	defer stop()
	wakeups := join(waiting, t, p, "n", "w")
	require.True(t, b.Polls.Load())
	var left int
	conn := connectPostgres(t)
	defer conn.Close(context.Background())
	require.NoError(t, conn.QueryRow(bounded(t), "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN leasing_' || $1 || '%'", b.Channel).Scan(&left))
	require.Zero(t, left)
	require.NoError(t, other.Release(bounded(t), releaseOf(claim)))
	awaitWakeup(t, wakeups)
}

// T154: a standby refuses LISTEN. A check before LISTEN avoids an error in the standby's log for
// each attempt.
func TestTrap_T154_AStandbyIsNotListenedTo(t *testing.T) {
	server := servertest.NewPostgres(t)
	p := openTest(t, server.URL, nil)
	require.NoError(t, os.WriteFile(filepath.Join(server.Dir, "data", "standby.signal"), nil, 0o644)) //nolint:gosec // another user reads it
	require.NoError(t, server.Crash(bounded(t)))
	for range 3 {
		_, err := p.Wait(bounded(t), abstractions.WaitRequest{Name: "n", ID: "w"})
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
	}
	require.NotContains(t, server.Printed(), "LISTEN")
}

// T163: the application's own transaction uses the only connection. The error names the pool.
func TestTrap_T163_APoolOfOneIsNamed(t *testing.T) {
	for name, want := range map[string]string{"pgxpool": "Options.Pool", "sql.DB": "Options.DB"} {
		t.Run(name, func(t *testing.T) {
			schema := newSchema(t)
			openTest(t, withParameters(postgresURL(t), "schema", schema), nil)
			var p *Provider
			if name == "pgxpool" {
				pool, err := pgxpool.New(bounded(t), withParameters(postgresURL(t), "pool_max_conns", "1"))
				require.NoError(t, err)
				t.Cleanup(pool.Close)
				p = opened(t, Options{Pool: pool, Schema: schema})
				tx, err := pool.Begin(bounded(t))
				require.NoError(t, err)
				defer tx.Rollback(context.Background())
			} else {
				config, err := pgx.ParseConfig(postgresURL(t))
				require.NoError(t, err)
				db := stdlibDB(t, config)
				db.SetMaxOpenConns(1)
				p = opened(t, Options{DB: db, Schema: schema})
				tx, err := db.BeginTx(bounded(t), nil)
				require.NoError(t, err)
				defer tx.Rollback()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := p.Acquire(ctx, claimOf("n", time.Minute))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, want)
		})
	}
}
