//go:build unix

package postgreslease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// switchServer is a server with a database "leases", which the role "app" owns.
type switchServer struct {
	t      *testing.T
	server *servertest.Postgres
}

func newSwitchServer(t *testing.T) *switchServer {
	t.Helper()
	s := &switchServer{t, servertest.NewPostgres(t)}
	hba := filepath.Join(s.server.Dir, "data", "pg_hba.conf")
	rules, err := os.ReadFile(hba)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(hba, append([]byte("host all app 127.0.0.1/32 scram-sha-256\n"), rules...), 0o600))
	s.exec(s.server, "SELECT pg_reload_conf()", "CREATE ROLE app LOGIN PASSWORD 'secret'", "CREATE DATABASE leases OWNER app")
	return s
}

func (s *switchServer) exec(on *servertest.Postgres, statements ...string) {
	s.t.Helper()
	for _, statement := range statements {
		s.ask(on, statement)
	}
}

// ask runs a statement as the superuser, and returns the first column as a text.
func (s *switchServer) ask(on *servertest.Postgres, statement string) (answer string) {
	s.t.Helper()
	ctx := bounded(s.t)
	conn, err := pgx.Connect(ctx, on.URL)
	require.NoError(s.t, err)
	defer conn.Close(ctx)
	results, err := conn.PgConn().Exec(ctx, statement).ReadAll()
	require.NoError(s.t, err, statement)
	if last := results[len(results)-1]; len(last.Rows) > 0 {
		answer = string(last.Rows[0][0])
	}
	return answer
}

// until waits for a statement to return the wanted answer.
func (s *switchServer) until(on *servertest.Postgres, statement, want string) {
	s.t.Helper()
	servertest.Eventually(s.t, statement, func(context.Context) error {
		if got := s.ask(on, statement); got != want {
			return errors.New(got)
		}
		return nil
	})
}

// hangUp closes the connections of role app.
func (s *switchServer) hangUp() {
	s.t.Helper()
	s.exec(s.server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
}

// switchOver returns the fault and clients of all kinds, each with its own schema.
func (s *switchServer) switchOver() faulttest.SwitchOver {
	return faulttest.SwitchOver{Server: s.server.Addr(), Clients: postgresClients("app:secret", "leases?sslmode=disable")}
}

// postgresClients returns functions that open a provider by URL, with an application's pool, and
// with an application's *sql.DB.
func postgresClients(user, database string) map[string]func(testing.TB, string) abstractions.Provider {
	open := func(t testing.TB, o Options) abstractions.Provider {
		o.Create = true
		p, err := Open(bounded(t), o)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		return p
	}
	at := func(endpoint string) string {
		return fmt.Sprintf("postgres://%s@%s/%s", user, endpoint, database)
	}
	return map[string]func(testing.TB, string) abstractions.Provider{
		"own": func(t testing.TB, endpoint string) abstractions.Provider {
			return open(t, Options{URL: at(endpoint) + "&schema=own"})
		},
		"pgxpool": func(t testing.TB, endpoint string) abstractions.Provider {
			pool, err := pgxpool.New(bounded(t), at(endpoint)+"&pool_max_conns=8")
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			return open(t, Options{Pool: pool, Schema: "pool"})
		},
		"sql.DB": func(t testing.TB, endpoint string) abstractions.Provider {
			db, err := sql.Open("pgx", at(endpoint))
			require.NoError(t, err)
			db.SetMaxOpenConns(8)
			db.SetMaxIdleConns(8)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			return open(t, Options{DB: db, Schema: "db"})
		},
	}
}

// T165: the endpoint leads to the standby that was promoted, and the old primary stays up and is read-only.
func TestTrap_T165_TheEndpointMoves_postgres(t *testing.T) {
	t.Parallel()
	s := newSwitchServer(t)
	standby := s.server.Standby()
	s.switchOver().Endures(t, func(move func(string)) {
		s.exec(s.server, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
		s.until(s.server, "SHOW default_transaction_read_only", "on")
		s.until(standby, "SELECT pg_last_wal_replay_lsn() >= '"+s.ask(s.server, "SELECT pg_current_wal_lsn()")+"'", "t")
		s.exec(standby, "SELECT pg_promote()")
		move(standby.Addr())
	})
}

// T165: the endpoint leads to a standby for a while.
func TestTrap_T165_TheEndpointLeadsToAStandby_postgres(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	s := newSwitchServer(t)
	standby := s.server.Standby()
	s.switchOver().Endures(t, func(move func(string)) {
		move(standby.Addr())
		s.hangUp()
		<-time.After(2 * time.Second) // the fault
		move(s.server.Addr())
	})
}

// T166: the password, or the database, is different for a while, and connections are closed.
func TestTrap_T166_CredentialsAreGoneForAWhile_postgres(t *testing.T) {
	servertest.Long(t)
	for what, statements := range map[string][2]string{
		"password":    {"ALTER ROLE app PASSWORD 'another'", "ALTER ROLE app PASSWORD 'secret'"},
		"role":        {"ALTER ROLE app NOLOGIN", "ALTER ROLE app LOGIN"},
		"connections": {"ALTER DATABASE leases ALLOW_CONNECTIONS false", "ALTER DATABASE leases ALLOW_CONNECTIONS true"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newSwitchServer(t)
			s.switchOver().Endures(t, func(func(string)) {
				s.exec(s.server, statements[0])
				s.hangUp()
				<-time.After(4 * time.Second) // the fault
				s.exec(s.server, statements[1])
			})
		})
	}
}

// T167: a gateway forgets connections.
func TestTrap_T167_ThePathIsLost_postgres(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	newSwitchServer(t).switchOver().EnduresLostPath(t)
}

// T168: a pooler in transaction mode may run each transaction in another session, which lacks the
// prepared statements of the client, or has those of another client.
func TestTrap_T168_ExecModeIsForgottenBehindPgBouncer_postgres(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := servertest.NewPostgres(t)
	pooler := servertest.NewPgBouncer(t, server, 3)
	s := faulttest.SwitchOver{Server: pooler.Addr(), Clients: postgresClients("postgres", "postgres?sslmode=disable")}
	s.Endures(t, func(func(string)) { <-time.After(time.Second) }) // time for some attempts and renewals
}

// T169: LISTEN does not last behind a pooler in transaction mode. Waiters are still served, long before their next
// poll, and nothing stays in the sessions of the pooler.
func TestTrap_T169_WakeupsBehindPgBouncer_postgres(t *testing.T) {
	t.Parallel()
	server := servertest.NewPostgres(t)
	pooler := servertest.NewPgBouncer(t, server, 3)
	s := &switchServer{t, server}
	for kind, open := range postgresClients("postgres", "postgres?sslmode=disable&default_query_exec_mode=exec") {
		t.Run(kind, func(t *testing.T) {
			var managers [2]*leasing.Manager
			for i := range managers {
				p := open(t, pooler.Addr())
				m, err := leasing.NewManager(p, leasing.Options{Tuning: leasing.Tuning{MinPoll: 20 * time.Second, MaxPoll: 20 * time.Second}})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, m.Close(bounded(t))) })
				managers[i] = m
			}
			for range 5 {
				lease, err := managers[0].Acquire(bounded(t), "n")
				require.NoError(t, err)
				served := make(chan time.Time, 1)
				go func() {
					next, err := managers[1].Acquire(context.WithoutCancel(t.Context()), "n")
					if err == nil {
						served <- time.Now()
						err = next.Release(context.WithoutCancel(t.Context()))
					}
					if err != nil {
						t.Errorf("the waiter: %v", err)
					}
					close(served)
				}()
				servertest.Eventually(t, "it waits", func(ctx context.Context) error {
					if waiting, err := managers[1].Waiters(ctx, "n"); err != nil || len(waiting) == 0 {
						return fmt.Errorf("none waits: %w", err)
					}
					return nil
				})
				released := time.Now()
				require.NoError(t, lease.Release(bounded(t)))
				require.WithinDuration(t, released, <-served, 5*time.Second)
				<-served
			}
		})
	}
	s.until(server, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", "0")
}
