//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/integration/scenarios/runner"
)

// samples is the folder of the samples' programs.
var samples string

func TestMain(m *testing.M) {
	status := func() int {
		var err error
		if samples, err = os.MkdirTemp("", "leasing-samples-"); err == nil {
			defer func() { _ = os.RemoveAll(samples) }()
			err = runner.Build(context.Background(), samples, "scenarios", "sequence", "agents")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "build of the samples:", err)
			return 1
		}
		status := m.Run()
		if err := goleak.Find(); status == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return status
	}()
	os.Exit(status)
}

// urls are like those of url_of in scripts/lib.sh.
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
	for _, s := range classic {
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
	require.NoError(t, runOne(t.Context(), samples, s, url, io.MultiWriter(&out, t.Output())))
	if s.Name == election.Name {
		provider := strings.Replace(backend, "mariadb", "mysql", 1) // MariaDB uses the provider mysql
		require.Contains(t, out.String(), ", on "+provider+")\n", "the provider that the URL names")
	}
}

func TestCommandLinesThatCannotWork(t *testing.T) {
	for want, args := range map[string][]string{
		"help requested": nil, `no scenario "monthly"`: {"monthly"}, `no argument "backwards"`: {"agents", "backwards"},
	} {
		var out strings.Builder
		err := run(t.Context(), args, &out)
		require.ErrorContains(t, err, want)
	}
	for _, s := range scenarios {
		err := runOne(t.Context(), samples, s, "oracle://me:geheim@h/d", t.Output())
		require.ErrorContains(t, err, `URL scheme "oracle"`)
		require.NotContains(t, err.Error(), "geheim")
	}
}

func TestSequenceOnSQLite(t *testing.T) { testSequence(t, "") }

func TestSequenceOnPostgres(t *testing.T) {
	testSequence(t, servertest.Require(t, "LEASING_TEST_POSTGRES"))
}

func testSequence(t *testing.T, url string) {
	out := runAlone(t, sequenceScenario, url)
	require.Equal(t, 4, strings.Count(out, "\nok  "), "checks")
	for trouble := range ends {
		require.Contains(t, out, trouble, "the table names it")
	}
}

func TestAgentsOnSQLite(t *testing.T) { testAgents(t, "") }
func TestAgentsOnPostgres(t *testing.T) {
	testAgents(t, servertest.Require(t, "LEASING_TEST_POSTGRES"))
}
func TestAgentsOnRedis(t *testing.T) { testAgents(t, servertest.Require(t, "LEASING_TEST_REDIS")) }

func testAgents(t *testing.T, url string) {
	out := runAlone(t, agents, url)
	require.Equal(t, 3, strings.Count(out, "\nok  "), "checks")
	require.Equal(t, 2, strings.Count(out, "broken"+strings.Repeat(" ", 10)+operator), "in the table")
}

// runAlone runs a scenario, and checks that it leaves no files behind.
func runAlone(t *testing.T, s runner.Scenario, url string) string {
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	err := runOne(t.Context(), samples, s, url, &out)
	t.Log(out.String())
	require.NoError(t, err)
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left, "left behind")
	return out.String()
}
