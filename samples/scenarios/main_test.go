//go:build unix

package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/samples/internal/runner"
)

// Workers are this program once more; in a test that is the test's program.
func TestMain(m *testing.M) {
	runner.WorkerMain(append(scenarios, election)...)
	goleak.VerifyTestMain(m)
}

// urls are as those of url_of in scripts/lib.sh.
var urls = map[string]string{
	"sqlite":   "",
	"postgres": "$LEASING_TEST_POSTGRES",
	"redis":    "$LEASING_TEST_REDIS",
	"redlock":  "$LEASING_TEST_REDLOCK",
	"cosmos":   "$LEASING_TEST_COSMOS?create=true",
	"s3":       "$LEASING_TEST_S3",
	"etcd":     "$LEASING_TEST_ETCD",
	"consul":   "$LEASING_TEST_CONSUL",
	"mariadb":  "$LEASING_TEST_MARIADB",
	"blob":     "azblob:///samples?create=true&connection_string_env=LEASING_TEST_AZURITE",
}

func TestScenariosOnSQLite(t *testing.T) { runAll(t, "sqlite") }
func TestScenariosOnPostgres(t *testing.T) {
	servertest.Long(t)
	runAll(t, "postgres")
}
func TestScenariosOnRedis(t *testing.T) {
	servertest.Long(t)
	runAll(t, "redis")
}

func TestElectionOnSQLite(t *testing.T) { runOn(t, election, "sqlite") }
func TestElectionOnPostgres(t *testing.T) {
	servertest.Long(t)
	runOn(t, election, "postgres")
}
func TestElectionOnRedis(t *testing.T) { runOn(t, election, "redis") }
func TestElectionOnRedlock(t *testing.T) {
	servertest.Long(t)
	runOn(t, election, "redlock")
}
func TestElectionOnCosmos(t *testing.T) {
	servertest.Long(t)
	runOn(t, election, "cosmos")
}
func TestElectionOnBlob(t *testing.T) {
	servertest.Long(t)
	runOn(t, election, "blob")
}
func TestElectionOnS3(t *testing.T) {
	servertest.Long(t)
	runOn(t, election, "s3")
}
func TestElectionOnEtcd(t *testing.T) {
	servertest.Long(t)
	runOn(t, election, "etcd")
}
func TestElectionOnConsul(t *testing.T) { runOn(t, election, "consul") }
func TestElectionOnMariaDB(t *testing.T) {
	servertest.Long(t)
	runOn(t, election, "mariadb")
}

func runAll(t *testing.T, backend string) {
	for _, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) { runOn(t, s, backend) })
	}
}

func runOn(t *testing.T, s runner.Scenario, backend string) {
	t.Helper()
	t.Parallel()
	url := os.Expand(urls[backend], func(variable string) string { return servertest.Require(t, variable) })
	if backend == "blob" {
		servertest.Require(t, "LEASING_TEST_AZURITE")
	}
	var out strings.Builder
	require.NoError(t, runner.Run(t.Context(), s, url, io.MultiWriter(&out, t.Output())))
	if s.Name == election.Name {
		provider := strings.Replace(backend, "mariadb", "mysql", 1) // whose dialect it is
		require.Contains(t, out.String(), ", on "+provider+")\n", "the provider that the URL names")
	}
}

func TestCommandLinesThatCannotWork(t *testing.T) {
	for want, args := range map[string][]string{
		"help requested": nil, `no scenario "monthly"`: {"monthly"}, `invalid URL scheme "oracle"`: {"daily", "-url", "oracle://me:geheim@h/d"},
	} {
		var out strings.Builder
		err := run(t.Context(), args, &out)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "geheim")
	}
}
