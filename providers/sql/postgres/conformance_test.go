package postgreslease

import (
	"os"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

func TestConformance(t *testing.T) {
	postgresURL(t) // fails here rather than in each check
	providertest.Run(t, database.Harness(silentPostgres, "history", "true", "history_renewals", "true"))
}

// Without history, a single acquire or release uses a statement of its own.
func TestConformanceWithoutHistory(t *testing.T) {
	servertest.Long(t)
	providertest.Run(t, database.Harness(silentPostgres))
}

// Roles and databases may have a stricter isolation level than the statements need.
func TestConformanceWhereTransactionsAreSerializable(t *testing.T) {
	servertest.Long(t)
	providertest.Run(t, database.Harness(silentPostgres, "default_transaction_isolation", "serializable"))
}

// Through a pooler each transaction may run on another connection.
func TestConformanceThroughPgBouncer(t *testing.T) {
	servertest.Long(t)
	pooler := os.Getenv("LEASING_TEST_PGBOUNCER")
	if pooler == "" {
		t.Skip("LEASING_TEST_PGBOUNCER names no pooler in transaction mode")
	}
	through := database
	through.URL = func(t testing.TB) string {
		return withParameters(pooler, "schema", newSchema(t), "no_wakeups", "true", "default_query_exec_mode", "exec")
	}
	h := through.Harness(silentPostgres)
	h.KnowsTheGone = false
	providertest.Run(t, h)
}

// silentPostgres returns a provider whose server accepts connections and never answers.
func silentPostgres(t testing.TB) abstractions.Provider {
	return openTest(t, "postgres://somebody:secret@"+faulttest.Silent(t)+"/leases", []string{"create", "false"})
}
