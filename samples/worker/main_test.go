package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/samples/internal/app"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An application moves from one backend to another by its configuration alone:
// these tests run the same program with the same file, and only the variable in "provider" differs.

func TestWorkersOnSQLite(t *testing.T)   { onBackend(t, "sqlite", "") }
func TestWorkersOnPostgres(t *testing.T) { onBackend(t, "postgres", "LEASING_TEST_POSTGRES") }
func TestWorkersOnRedis(t *testing.T)    { onBackend(t, "redis", "LEASING_TEST_REDIS") }
func TestWorkersOnRedlock(t *testing.T) {
	servertest.Long(t)
	onBackend(t, "redlock", "LEASING_TEST_REDLOCK")
}
func TestWorkersOnBlob(t *testing.T) {
	servertest.Long(t)
	onBackend(t, "blob", "LEASING_TEST_AZURITE")
}
func TestWorkersOnCosmos(t *testing.T) {
	servertest.Long(t)
	onBackend(t, "cosmos", "LEASING_TEST_COSMOS")
}
func TestWorkersOnS3(t *testing.T) {
	servertest.Long(t)
	onBackend(t, "s3", "LEASING_TEST_S3")
}
func TestWorkersOnEtcd(t *testing.T) {
	servertest.Long(t)
	onBackend(t, "etcd", "LEASING_TEST_ETCD")
}
func TestWorkersOnConsul(t *testing.T) { onBackend(t, "consul", "LEASING_TEST_CONSUL") }
func TestWorkersOnMariaDB(t *testing.T) {
	servertest.Long(t)
	onBackend(t, "mariadb", "LEASING_TEST_MARIADB")
}

func onBackend(t *testing.T, name, server string) {
	t.Parallel()
	if server != "" {
		servertest.Require(t, server)
	}
	env := []string{"BACKEND", name, "WORKER_FILE", filepath.Join(t.TempDir(), "leases.db"), server, os.Getenv(server)}
	if name == "postgres" { // the tables would stay there
		schema := "sample_worker_" + strings.ToLower(rand.Text()[:8])
		env = append(env, "WORKER_SCHEMA", schema)
		db, err := sql.Open("pgx", os.Getenv(server))
		require.NoError(t, err)
		t.Cleanup(func() {
			_, err := db.ExecContext(context.WithoutCancel(t.Context()), "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
			require.NoError(t, errors.Join(err, db.Close()))
		})
	}
	lease := "test/" + strings.ReplaceAll(t.TempDir(), "/", "-")
	args := []string{"-config", filepath.Join("configs", "local.json"), "-name", lease, "-pace", "200ms"}
	first := append(slices.Clone(args), "-owner", "w1")
	if name == "redlock" {
		first = append(first, "-bootstrap")
	}
	w1 := start(t, vars(env...), first...)
	token := w1.await(`HAS THE LEASE, token (\d+)`)
	w2 := start(t, vars(env...), append(args, "-owner", "w2")...)
	w2.await(`waits: w1 has the lease, token ` + token + `, for .*host=.*, pid=\d+, region=here`)
	w1.await(`renewed the lease`)
	w1.stop()
	w1.await(`stops its work`)
	w1.await(`has given the lease up`)
	second := w2.await(`HAS THE LEASE, token (\d+)`)
	require.Greater(t, second, token, "tokens have as many digits")
	w2.await(`did item 1`)
	w2.stop()
}

// process is a worker in this process.
type process struct {
	t      *testing.T
	cancel context.CancelFunc
	ended  chan error

	mu    sync.Mutex
	out   bytes.Buffer
	wrote chan struct{} // closed and replaced with each line
}

func start(t *testing.T, env lookup, args ...string) *process {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	p := &process{t: t, cancel: cancel, ended: make(chan error, 1), wrote: make(chan struct{})}
	go func() { p.ended <- run(ctx, args, env, p) }()
	t.Cleanup(p.stop)
	return p
}

// Write stores a line of the output.
func (p *process) Write(line []byte) (int, error) {
	p.t.Log(strings.TrimSpace(string(line)))
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.wrote)
	p.wrote = make(chan struct{})
	return p.out.Write(line)
}

// await waits until the output matches pattern, and returns the last group of the match.
func (p *process) await(pattern string) string {
	p.t.Helper()
	for {
		p.mu.Lock()
		match := regexp.MustCompile(pattern).FindStringSubmatch(p.out.String())
		wrote := p.wrote
		p.mu.Unlock()
		if match != nil {
			return match[len(match)-1]
		}
		select {
		case <-wrote:
		case err := <-p.ended:
			p.ended <- err // for stop
			p.t.Fatalf("the worker has ended before %q: %v", pattern, err)
		}
	}
}

// stop asks the worker to stop, and waits until the worker has ended without an error.
func (p *process) stop() {
	p.cancel()
	if err, open := <-p.ended; open {
		require.NoError(p.t, err)
		close(p.ended)
	}
}

// A holder that loses its lease stops its work, and competes for a new lease.
func TestWorkerThatLosesItsLeaseCompetesAgainOnSQLite(t *testing.T) {
	t.Parallel()
	url := "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "leases.db")) + "?create=true"
	w := start(t, vars(urlVariable, url), "-ttl", "2s", "-pace", "100ms", "-name", "n")
	first := w.await(`HAS THE LEASE, token (\d+)`)
	provider, err := app.Open(t.Context(), url)
	require.NoError(t, err)
	defer provider.Close()
	result, err := provider.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: true})
	require.NoError(t, err)
	require.True(t, result.WasHeld)
	w.await(`HAS LOST THE LEASE`)
	again := w.await(`(?s)HAS LOST.*HAS THE LEASE, token (\d+)`)
	require.Greater(t, again, first)
}

func TestWorkerThatWaitsStopsInOrderOnSQLite(t *testing.T) {
	t.Parallel()
	env := vars(urlVariable, "sqlite://"+filepath.ToSlash(filepath.Join(t.TempDir(), "leases.db"))+"?create=true")
	w1 := start(t, env, "-owner", "w1")
	w1.await(`HAS THE LEASE`)
	w2 := start(t, env, "-owner", "w2", "-pace", "100ms")
	w2.await(`waits: w1`)
	w2.stop()
}

func TestWorkerIsMeasuredOnSQLite(t *testing.T) {
	t.Parallel()
	url := "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "leases.db")) + "?create=true"
	w := start(t, vars(urlVariable, url), "-metrics", "127.0.0.1:0")
	at := w.await(`metrics at (http://\S+)`)
	w.await(`did item 1`)
	answer, err := http.Get(at)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	http.DefaultClient.CloseIdleConnections()
	require.Regexp(t, `(?m)^leasing_backend_up{.*leasing_provider="sqlite".*} 1$`, string(text))
	require.Regexp(t, `(?m)^leasing_active_count{.*leasing_scope="sample".*} 1$`, string(text))
}

func TestMeasureOnSQLite(t *testing.T) {
	var out bytes.Buffer
	url := "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "leases.db")) + "?create=true"
	require.NoError(t, run(t.Context(), []string{"-provider", url, "-measure", "3"}, vars(), &out))
	require.Regexp(t, `sqlite, 3 times +median +99 % +first\nacquire .*s\nrenew .*s\nrelease .*s\n`, out.String())
}

func TestWorkerSaysWhatIsWrong(t *testing.T) {
	missing := "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "leases.db")) // has no tables, and is not asked to create any
	for url, want := range map[string]string{"oracle://me:geheim@host/db": `"oracle"`, missing: "call Migrate"} {
		var out bytes.Buffer
		err := run(t.Context(), []string{"-provider", url, "-pace", "1ms"}, vars(), &out)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error()+out.String(), "geheim")
	}
}
