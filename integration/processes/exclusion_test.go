// Package processes checks exclusion between operating-system processes that
// are killed and paused while they compete for one lease, on a real database.
package processes

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/fencing/sqlfence"
)

const (
	workerVariable = "LEASING_WORKER" // the environment variable with a worker's job
	workers        = 4
	kills, pauses  = 4, 4
	lostAtLeast    = 2               // the number of leases that paused workers must lose
	atMost         = 3 * time.Minute // bounds a run on a very slow machine
)

func TestMain(m *testing.M) {
	if config := os.Getenv(workerVariable); config != "" {
		if err := work(config); err != nil {
			report(note{Kind: failed, Text: err.Error()})
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestExclusionBetweenProcesses_SQLite(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "leases.db")
	compete(t, job{
		URL:    "sqlite://" + file,
		Driver: "sqlite3",
		DSN:    "file:" + file + "?_pragma=busy_timeout(2000)&_pragma=journal_mode(wal)&_txlock=immediate",
		Style:  sqlfence.Question,
	}, "INTEGER PRIMARY KEY AUTOINCREMENT")
}

func TestExclusionBetweenProcesses_Postgres(t *testing.T) {
	t.Parallel()
	server := servertest.Require(t, "LEASING_TEST_POSTGRES")
	admin, err := sql.Open("pgx", server)
	require.NoError(t, err)
	defer admin.Close()
	const schema = "integration_processes"
	_, err = admin.ExecContext(t.Context(), "DROP SCHEMA IF EXISTS "+schema+" CASCADE; CREATE SCHEMA "+schema)
	require.NoError(t, err)
	t.Cleanup(func() {
		db, _ := sql.Open("pgx", server)
		defer db.Close()
		_, _ = db.ExecContext(context.Background(), "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
	})
	dsn, err := url.Parse(server)
	require.NoError(t, err)
	query := dsn.Query()
	query.Set("search_path", schema)
	dsn.RawQuery = query.Encode()
	compete(t, job{
		URL:    server,
		Schema: schema,
		Driver: "pgx",
		DSN:    dsn.String(),
		Style:  sqlfence.Dollar,
	}, "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
}

// compete lets workers compete for the lease while leaders are killed and paused
// past their TTL, then reads the history.
func compete(t *testing.T, j job, serial string) {
	db, err := sql.Open(j.Driver, j.DSN)
	require.NoError(t, err)
	defer db.Close()
	provider, err := j.open(t.Context(), true)
	require.NoError(t, err)
	require.NoError(t, provider.Close())
	fence, err := sqlfence.NewTable(j.Style, "fence")
	require.NoError(t, err)
	for _, ddl := range []string{fence.CreateSQL(), "CREATE TABLE ledger (seq " + serial + ", token bigint NOT NULL)"} {
		_, err = db.ExecContext(t.Context(), ddl)
		require.NoError(t, err)
	}

	a := newArena(t, j)
	for range workers {
		a.spawn()
	}
	deadline := time.Now().Add(atMost)
	for i := range kills + pauses {
		w, token := a.leader(deadline)
		if i%2 == 0 {
			a.kill(w, token)
			a.spawn()
		} else {
			a.pause(w, deadline)
		}
	}
	a.leader(deadline)
	for !a.hasEnough() {
		w, _ := a.leader(deadline)
		a.pause(w, deadline)
	}
	history := a.end()
	history.check(t)

	rows, err := db.QueryContext(t.Context(), "SELECT token FROM ledger ORDER BY seq")
	require.NoError(t, err)
	defer rows.Close()
	var before, writes int64
	for rows.Next() {
		var token int64
		require.NoError(t, rows.Scan(&token))
		require.GreaterOrEqual(t, token, before, "a stale write was accepted")
		before = token
		writes++
	}
	require.NoError(t, rows.Err())
	require.Greater(t, writes, int64(20))
	t.Logf("%d leaders, %d writes, %d losses noticed, late writes: %d refused, %d accepted before anybody else had written",
		len(history.terms), writes, history.lost, history.refused, history.accepted)
}

// process is a running worker.
type process struct {
	cmd    *exec.Cmd
	killed time.Duration // when it was killed; 0 if it was not
}

// arena is the parent's view of the workers.
type arena struct {
	t       *testing.T
	job     job
	readers sync.WaitGroup

	mu        sync.Mutex
	processes []*process
	history   history
	changed   chan struct{} // closed and replaced with each note
	current   struct {
		process *process
		token   int64
		since   time.Time
	}
}

func newArena(t *testing.T, j job) *arena {
	a := &arena{t: t, job: j, changed: make(chan struct{})}
	a.history.terms = map[int64]*term{}
	t.Cleanup(func() { a.end() })
	return a
}

func (a *arena) spawn() {
	config, err := json.Marshal(a.job)
	require.NoError(a.t, err)
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), workerVariable+"="+string(config))
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	require.NoError(a.t, err)
	require.NoError(a.t, p.cmd.Start())
	a.mu.Lock()
	a.processes = append(a.processes, p)
	a.mu.Unlock()
	a.readers.Go(func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var n note
			if json.Unmarshal(lines.Bytes(), &n) == nil {
				a.note(p, n)
			}
		}
	})
}

func (a *arena) note(p *process, n note) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.history.add(p, n)
	switch n.Kind {
	case acquired:
		a.current.process, a.current.token, a.current.since = p, n.Token, time.Now()
	case releasing, lost:
		if a.current.token == n.Token {
			a.current.process = nil
		}
	}
	close(a.changed)
	a.changed = make(chan struct{})
}

// leader waits until a process has led for 200 ms, and returns the process and its token.
func (a *arena) leader(deadline time.Time) (*process, int64) {
	for {
		a.mu.Lock()
		p, token, since, changed := a.current.process, a.current.token, a.current.since, a.changed
		failures := a.history.failures
		a.mu.Unlock()
		require.Empty(a.t, failures)
		if p != nil && p.killed == 0 && time.Since(since) > 200*time.Millisecond {
			return p, token
		}
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond):
		}
		require.True(a.t, time.Now().Before(deadline), "nobody leads")
	}
}

func (a *arena) kill(p *process, token int64) {
	_ = p.cmd.Process.Kill()
	a.mu.Lock()
	defer a.mu.Unlock()
	p.killed = now()
	if a.current.token == token {
		a.current.process = nil
	}
}

// pause stops a process until another process has led for 200 ms, or for four
// TTLs: an SQLite writer that is stopped in its transaction keeps all others out.
func (a *arena) pause(p *process, deadline time.Time) {
	require.NoError(a.t, p.cmd.Process.Signal(syscall.SIGSTOP))
	until := time.Now().Add(4 * ttl)
	for time.Now().Before(until) && time.Now().Before(deadline) {
		a.mu.Lock()
		c, changed := a.current, a.changed
		a.mu.Unlock()
		if c.process != nil && c.process != p && time.Since(c.since) > 200*time.Millisecond {
			break
		}
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond):
		}
	}
	a.mu.Lock()
	if a.current.process == p {
		a.current.process = nil
	}
	a.mu.Unlock()
	require.NoError(a.t, p.cmd.Process.Signal(syscall.SIGCONT))
}

// hasEnough reports whether paused workers have lost enough leases, and a late write was refused.
// Not every pause counts: a paused worker that was about to release its lease does not lose that
// lease.
func (a *arena) hasEnough() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.history.lost >= lostAtLeast && a.history.refused > 0
}

// end kills the workers and returns their history.
func (a *arena) end() history {
	a.mu.Lock()
	processes := a.processes
	a.processes = nil
	a.mu.Unlock()
	for _, p := range processes {
		_ = p.cmd.Process.Kill()
	}
	a.readers.Wait()
	for _, p := range processes {
		_ = p.cmd.Wait()
	}
	return a.history
}

// history has the notes of the workers, term by term.
type history struct {
	terms             map[int64]*term // by token
	refused, accepted int             // late writes
	lost              int
	failures          []string
}

// term is one held lease: the interval for which its holder trusted the lease.
type term struct {
	process     *process
	token       int64
	from, until time.Duration
}

func (h *history) add(p *process, n note) {
	t := h.terms[n.Token]
	if t == nil && n.Kind != failed {
		t = &term{process: p, token: n.Token, from: n.At, until: n.At}
		h.terms[n.Token] = t
	}
	switch n.Kind {
	case acquired:
		if t.process != p {
			h.failures = append(h.failures, fmt.Sprintf("token %d was granted twice", n.Token))
		}
	case trusted:
		t.until = max(t.until, n.Until)
	case releasing:
		t.until = min(t.until, n.At)
	case lost:
		h.lost++
	case late:
		switch n.Text {
		case "refused":
			h.refused++
		case "accepted":
			h.accepted++
		}
	case failed:
		h.failures = append(h.failures, n.Text)
	}
}

func (h *history) check(t *testing.T) {
	require.Empty(t, h.failures)
	require.Greater(t, len(h.terms), kills+pauses)
	var terms []*term
	for _, term := range h.terms {
		terms = append(terms, term)
	}
	sort.Slice(terms, func(i, j int) bool { return terms[i].token < terms[j].token })
	for i := 1; i < len(terms); i++ {
		before, after := terms[i-1], terms[i]
		require.GreaterOrEqual(t, after.from, before.until,
			"token %d was trusted for %v more when token %d was acquired", before.token, before.until-after.from, after.token)
	}
	require.GreaterOrEqual(t, h.lost, lostAtLeast, "those who were paused past their TTL hear of their loss")
	require.Positive(t, h.refused, "no paused leader tried a late write; the run has shown nothing")
}
