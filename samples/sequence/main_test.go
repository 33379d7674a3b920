//go:build unix

package main

import (
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
	runner.WorkerMain(scenario)
	goleak.VerifyTestMain(m)
}

func TestSequenceOnSQLite(t *testing.T) { testSequence(t, "") }

func TestSequenceOnPostgres(t *testing.T) {
	testSequence(t, servertest.Require(t, "LEASING_TEST_POSTGRES"))
}

func testSequence(t *testing.T, url string) {
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	err := run(t.Context(), []string{"-url", url}, &out)
	t.Log(out.String())
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(out.String(), "\nok  "), "checks")
	for _, trouble := range troubles[:7] {
		require.Contains(t, out.String(), trouble, "the table names it")
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left, "left behind")
}

func TestCommandLinesThatCannotWork(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), []string{"backwards"}, t.Output()), `no argument "backwards"`)
	require.ErrorContains(t, run(t.Context(), []string{"-url", "oracle://h/d"}, t.Output()), `URL scheme "oracle"`)
}
