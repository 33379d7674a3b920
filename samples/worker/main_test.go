package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/samples/internal/place"
)

// The demo, and some tests, start this program again for the workers; in a test
// that is the test's program.
func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		os.Exit(run(os.Args[1:], os.Stdout))
	}
	goleak.VerifyTestMain(m)
}

// An application moves from one backend to another by its configuration alone:
// these tests run the same program with the same file, and only the variable
// that stands at "Provider" differs. In each three processes compete, the holder
// is killed, and another takes over with a higher token.

func TestWorkersOnSQLite(t *testing.T)   { onBackend(t, "sqlite", "") }
func TestWorkersOnPostgres(t *testing.T) { onBackend(t, "postgres", "LEASING_TEST_POSTGRES") }
func TestWorkersOnRedis(t *testing.T)    { onBackend(t, "redis", "LEASING_TEST_REDIS") }
func TestWorkersOnRedlock(t *testing.T)  { onBackend(t, "redlock", "LEASING_TEST_REDLOCK") }
func TestWorkersOnBlob(t *testing.T)     { onBackend(t, "blob", "LEASING_TEST_AZURITE") }
func TestWorkersOnCosmos(t *testing.T)   { onBackend(t, "cosmos", "LEASING_TEST_COSMOS") }

func onBackend(t *testing.T, name, server string) {
	t.Parallel()
	if server != "" {
		require.NotEmpty(t, os.Getenv(server), "set %s, or run the test in scripts/with-servers %s", server, name)
	}
	env := []string{"BACKEND=" + name, "WORKER_FILE=" + filepath.Join(t.TempDir(), "leases.db")}
	if name == "postgres" { // where tables would stay
		p, clear, err := place.SetUp(t.Context(), "worker", os.Getenv(server))
		require.NoError(t, err)
		defer func() { require.NoError(t, clear()) }()
		env = append(env, "WORKER_SCHEMA="+p.Scope)
	}
	s, err := settingsOf([]string{"-demo", "-config", filepath.Join("configs", "local.json")}, over(env))
	require.NoError(t, err)
	s.vars = env
	var shown tee
	err = demo(t.Context(), s, &shown)
	t.Log("\n" + shown.String())
	require.NoError(t, err)
	require.Contains(t, shown.String(), "three workers compete for one lease of")
	require.Regexp(t, `w\d +waits: w\d has the lease, token \d{16}, for .*host=.*, pid=\d+, region=here`, shown.String())
	require.Regexp(t, `w\d took over after .*, with a higher token`, shown.String())
}

// A URL says as much as a section of a file.
func TestWorkersByURLOnSQLite(t *testing.T) {
	t.Parallel()
	url := "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "leases.db")) + "?migrate=true"
	s, err := settingsOf([]string{"-demo", "-provider", url}, os.LookupEnv)
	require.NoError(t, err)
	require.NoError(t, demo(t.Context(), s, t.Output()))
}

// over lays variables over the environment's.
func over(vars []string) lookup {
	return func(name string) (string, bool) {
		for _, v := range vars {
			if key, value, _ := strings.Cut(v, "="); key == name {
				return value, true
			}
		}
		return os.LookupEnv(name)
	}
}

// tee keeps what is written.
type tee struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *tee) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *tee) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// crewOf starts workers on a fresh SQLite file, and sees to their end.
func crewOf(t *testing.T, names ...string) *crew {
	t.Helper()
	folder := t.TempDir()
	c := newCrew([]string{"-ttl", "2s", "-pace", "100ms", "-show", "400ms", "-ledger", filepath.Join(folder, "ledger.db")},
		[]string{urlVariable + "=sqlite://" + filepath.ToSlash(filepath.Join(folder, "leases.db")) + "?migrate=true"})
	t.Cleanup(c.end)
	for _, name := range names {
		require.NoError(t, c.start(name))
	}
	return c
}

// breakLease ends whoever's lease it is, as an operator would.
func breakLease(t *testing.T, s settings) {
	t.Helper()
	provider, err := s.open(t.Context())
	require.NoError(t, err)
	defer provider.Close()
	result, err := provider.Break(t.Context(), abstractions.BreakRequest{Name: s.Name, Immediate: true})
	require.NoError(t, err)
	require.True(t, result.WasHeld)
}

// await waits for a report.
func await(t *testing.T, c *crew, awaited func(report) bool) report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		r, err := c.next(ctx)
		require.NoError(t, err)
		t.Log(r.Worker, r.line())
		if awaited(r) {
			return r
		}
	}
}

func is(worker string, k kind) func(report) bool {
	return func(r report) bool { return r.Worker == worker && r.Kind == k }
}

func TestWaitingWorkerThatIsAskedToStopEndsInOrderOnSQLite(t *testing.T) {
	t.Parallel()
	c := crewOf(t, "w1")
	await(t, c, is("w1", acquired))
	require.NoError(t, c.start("w2"))
	await(t, c, is("w2", waiting))
	require.NoError(t, c.stop("w2"))
	require.Equal(t, "exit status 0", await(t, c, is("w2", exited)).Text)
	await(t, c, is("w1", did))
}

func TestWorkerGivesTheLeaseUpWhenAskedToStopOnSQLite(t *testing.T) {
	t.Parallel()
	c := crewOf(t, "w1")
	await(t, c, is("w1", did))
	require.NoError(t, c.stop("w1"))
	await(t, c, is("w1", stopping))
	await(t, c, is("w1", released))
	require.Equal(t, "exit status 0", await(t, c, is("w1", exited)).Text)
}

func TestWorkerWhoseParentIsGoneEndsInOrderOnSQLite(t *testing.T) {
	t.Parallel()
	c := crewOf(t, "w1")
	await(t, c, is("w1", did))
	require.NoError(t, c.stdin["w1"].Close())
	await(t, c, is("w1", released))
	require.Equal(t, "exit status 0", await(t, c, is("w1", exited)).Text)
}

// A holder that loses its lease stops its work, and competes again.
func TestWorkerThatLosesItsLeaseCompetesAgainOnSQLite(t *testing.T) {
	t.Parallel()
	c := crewOf(t, "w1")
	first := await(t, c, is("w1", acquired))
	s, err := settingsOf([]string{"-provider", strings.TrimPrefix(c.env[0], urlVariable+"=")}, os.LookupEnv)
	require.NoError(t, err)
	breakLease(t, s)
	await(t, c, is("w1", lost))
	again := await(t, c, is("w1", acquired))
	require.Greater(t, again.Token, first.Token)
	await(t, c, func(r report) bool { return r.Kind == did && r.Token == again.Token })
}

// A holder whose write is refused has no lease any more, whatever it believes.
func TestWorkerWhoseWriteIsRefusedStopsItsWorkOnSQLite(t *testing.T) {
	t.Parallel()
	c := crewOf(t, "w1")
	first := await(t, c, is("w1", did))
	book, err := openLedger(t.Context(), c.args[len(c.args)-1])
	require.NoError(t, err)
	defer book.close()
	_, err = book.write(t.Context(), defaultName, first.Token+1, "successor")
	require.NoError(t, err)
	require.Contains(t, await(t, c, is("w1", refused)).Text, "stale fencing token")
	await(t, c, is("w1", released))
	again := await(t, c, is("w1", did))
	require.Greater(t, again.Token, first.Token+1, "a later lease")
}

func TestMeasureOnSQLite(t *testing.T) {
	var out bytes.Buffer
	url := "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "leases.db")) + "?migrate=true"
	require.Equal(t, 0, run([]string{"-provider", url, "-measure", "3"}, &out))
	require.Regexp(t, `sqlite, 3 times +median +99 % +first\nacquire .*s\nrenew .*s\nrelease .*s\n`, out.String())
}

func TestWorkerSaysWhatIsWrongAndFails(t *testing.T) {
	var out bytes.Buffer
	require.Equal(t, 1, run([]string{"-provider", "mysql://me:geheim@host/db"}, &out))
	require.Equal(t, 1, run([]string{"-config", filepath.Join("configs", "no.json")}, &out))
	missing := "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "leases.db")) // no tables, and none to be made
	require.Equal(t, 1, run([]string{"-provider", missing, "-pace", "1ms"}, &out))
	require.Contains(t, out.String(), "competes")
	require.NotContains(t, out.String(), "geheim")
}

func TestDemoThatIsInterruptedLeavesNothingBehindOnSQLite(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := settingsOf([]string{"-demo", "-provider", "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "leases.db")) + "?migrate=true"}, os.LookupEnv)
	require.NoError(t, err)
	out := writerFunc(func(line []byte) (int, error) {
		if strings.Contains(string(line), "HAS THE LEASE") {
			cancel()
		}
		return len(line), nil
	})
	require.ErrorIs(t, demo(ctx, s, out), context.Canceled) // and goleak looks for readers of workers
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(line []byte) (int, error) { return f(line) }
