//go:build unix

package main

import (
	"context"
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

func TestAgentsOnSQLite(t *testing.T) { testAgents(t, "") }
func TestAgentsOnPostgres(t *testing.T) {
	testAgents(t, servertest.Require(t, "LEASING_TEST_POSTGRES"))
}
func TestAgentsOnRedis(t *testing.T) { testAgents(t, servertest.Require(t, "LEASING_TEST_REDIS")) }

func testAgents(t *testing.T, url string) {
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	err := run(t.Context(), []string{"-url", url}, &out)
	t.Log(out.String())
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(out.String(), "\nok  "), "checks")
	require.Equal(t, 2, strings.Count(out.String(), "broken"+strings.Repeat(" ", 10)+operator), "in the table")
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left, "left behind")
}

func TestCommandLinesThatCannotWork(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), []string{"backwards"}, t.Output()), `no argument "backwards"`)
	require.ErrorContains(t, run(t.Context(), []string{"-url", "oracle://h/d"}, t.Output()), `URL scheme "oracle"`)
}

// Edits that two make at a time are seen, and those that are half done.
func TestFilesThatWereNotLeasedAreFound(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	root, err := makeTree()
	require.NoError(t, err)
	paths := files[:2]
	require.NoError(t, edit(t.Context(), root, "a/1", paths, nil))
	lines, err := checkFiles(root, []string{"a/1 " + strings.Join(paths, " ")})
	require.NoError(t, err)
	require.Equal(t, 2, lines)

	require.NoError(t, edit(t.Context(), root, "a/2", paths, func(ctx context.Context) {
		require.NoError(t, edit(ctx, root, "b/1", paths[:1], nil))
	}))
	_, err = checkFiles(root, []string{"a/1 " + strings.Join(paths, " "), "a/2 " + strings.Join(paths, " "), "b/1 " + paths[0]})
	require.ErrorContains(t, err, "reported were", "b/1 is lost")

	text, err := os.ReadFile(root + "/" + files[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(root+"/"+files[0], text[:len(text)-3], 0o600))
	_, err = checkFiles(root, nil)
	require.ErrorContains(t, err, "torn")
}
