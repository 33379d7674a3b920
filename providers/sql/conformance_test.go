package sqllease

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"
)

func TestConformance(t *testing.T) {
	for dialect, unreachable := range map[string]func(testing.TB) abstractions.Provider{
		"postgres": silentPostgres, "sqlite": lockedSqlite,
	} {
		t.Run(dialect, func(t *testing.T) {
			if dialect == "postgres" {
				postgresURL(t) // one failure rather than one for each check
			}
			providertest.Run(t, harness(dialect, unreachable, "history", "true", "history_renewals", "true"))
		})
	}
}

// Without history a lone acquire or release has a statement of its own.
func TestConformanceWithoutHistory(t *testing.T) {
	servertest.Long(t)
	t.Run("postgres", func(t *testing.T) { providertest.Run(t, harness("postgres", silentPostgres)) })
}

// Roles and databases may have a stricter isolation level than the statements need.
func TestConformanceWhereTransactionsAreSerializable(t *testing.T) {
	servertest.Long(t)
	t.Run("postgres", func(t *testing.T) {
		providertest.Run(t, harness("postgres", silentPostgres, "default_transaction_isolation", "serializable"))
	})
}

// Through a pooler each transaction may be on another connection.
func TestConformanceThroughPgBouncer(t *testing.T) {
	servertest.Long(t)
	pooler := os.Getenv("LEASING_TEST_PGBOUNCER")
	if pooler == "" {
		t.Skip("LEASING_TEST_PGBOUNCER names no pooler in transaction mode")
	}
	t.Run("postgres", func(t *testing.T) {
		databases := func(t testing.TB) func(...string) *Provider {
			base := withParameters(pooler, "schema", newSchema(t), "no_wakeups", "true", "default_query_exec_mode", "exec")
			return func(parameters ...string) *Provider { return openTest(t, base, parameters) }
		}
		providertest.Run(t, harnessOn(databases, silentPostgres))
	})
}

// harness gives each provider tables of its own.
func harness(dialect string, unreachable func(testing.TB) abstractions.Provider, parameters ...string) providertest.Harness {
	h := harnessOn(databases[dialect], unreachable, parameters...)
	h.KnowsTheGone = true
	return h
}

func harnessOn(database func(testing.TB) func(...string) *Provider, unreachable func(testing.TB) abstractions.Provider, parameters ...string) providertest.Harness {
	var tables sync.Map // how to open another client, by provider
	return providertest.Harness{
		New: func(t testing.TB) abstractions.Provider {
			open := database(t)
			p := open(parameters...)
			tables.Store(p, open)
			return p
		},
		Peer: func(t testing.TB, p abstractions.Provider) abstractions.Provider {
			open, _ := tables.Load(p)
			return open.(func(...string) *Provider)(parameters...)
		},
		Forget: func(t testing.TB, p abstractions.Provider, name string) {
			_, _, err := p.(*Provider).driver.backend.sweep(bounded(t), new(string), 1000, time.Microsecond)
			require.NoError(t, err)
		},
		Ahead: func(t testing.TB, p abstractions.Provider, name string) {
			execute(bounded(t), t, p.(*Provider).driver.backend, "UPDATE {lease} SET token = token + 3600000000, version = version + 1 WHERE name = '"+name+"'")
		},
		Remove: func(t testing.TB, p abstractions.Provider, name string) {
			execute(bounded(t), t, p.(*Provider).driver.backend, "DELETE FROM {lease} WHERE name = '"+name+"'")
		},
		Remembers:   64,
		Unreachable: unreachable,
	}
}

// silentPostgres takes connections and says nothing.
func silentPostgres(t testing.TB) abstractions.Provider {
	return openTest(t, "postgres://somebody:secret@"+providertest.Silent(t)+"/leases", []string{"create", "false"})
}

// lockedSqlite is a file that somebody else keeps for himself, also from readers.
func lockedSqlite(t testing.TB) abstractions.Provider {
	open := databases["sqlite"](t)
	p := open()
	path := pathOf(t, p)
	require.NoError(t, p.Close())
	conn, err := sqlite3.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.Exec("PRAGMA locking_mode = exclusive; CREATE TABLE mine (n)"))
	return open("create", "false")
}
