//go:build unix

package sqlsequence

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/sequence/sequencetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// options returns the options of a run of 8 seconds, of 2 minutes with LEASING_TEST_SLOW, or of the
// time in LEASING_TEST_TORTURE.
func options() sequencetest.TortureOptions {
	o := sequencetest.TortureOptions{
		For: 8 * time.Second, Writers: 12, Cleaners: 6, Readers: 3, Rounds: 3, Lease: 300 * time.Millisecond, Pause: 600 * time.Millisecond, Seed: uint64(time.Now().UnixNano()),
	}
	if os.Getenv("LEASING_TEST_SLOW") != "" {
		o.For = 2 * time.Minute
	}
	if long, err := time.ParseDuration(os.Getenv("LEASING_TEST_TORTURE")); err == nil {
		o.For = long
	}
	if o.For > time.Minute {
		o.Rounds, o.Lease, o.Pause = 6, time.Second, 2*time.Second
	}
	return o
}

func TestTorture_sqlite(t *testing.T) {
	t.Parallel()
	s := newTorturedSqlite(t)
	o, killed := options(), 0
	o.Beside = func(ctx context.Context, acknowledge sequencetest.Acknowledge) {
		killed += killProcesses(ctx, t, process{Path: s.path, Lease: o.Lease, Pause: o.Pause}, acknowledge)
	}
	checkTorture(t, sequencetest.Torture(t, sequencetest.Database[*sql.Tx](s), o, nil), o)
	require.Positive(t, killed, "no writer was killed")
}

func TestTorture_postgres(t *testing.T) {
	t.Parallel()
	p := newTorturedPostgres(t)
	o, killed := options(), 0
	o.Pause = 5 * time.Second
	o.Beside = func(ctx context.Context, acknowledge sequencetest.Acknowledge) {
		var group sync.WaitGroup
		defer group.Wait()
		group.Go(func() { terminate(ctx, t, p.schema) })
		killed += killProcesses(ctx, t, process{URL: postgresURL(t), Schema: p.schema, Lease: o.Lease, Pause: o.Pause}, acknowledge)
	}
	checkTorture(t, sequencetest.Torture(t, sequencetest.Database[pgx.Tx](p), o, nil), o)
	require.Positive(t, killed, "no writer was killed")
}

// terminate ends sessions that work on a schema, one after another.
func terminate(ctx context.Context, t *testing.T, schema string) {
	conn, err := pgx.Connect(context.Background(), postgresURL(t))
	if !assert.NoError(t, err) {
		return
	}
	defer conn.Close(context.Background())
	for wait(ctx, rand.N(500*time.Millisecond)) {
		_, err := conn.Exec(context.Background(), `SELECT pg_terminate_backend(pid) FROM (
	SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%' || $1 || '%' ORDER BY random() LIMIT 1) AS one`, schema)
		assert.NoError(t, err)
	}
}

// The server crashes while all clients work, and restarts.
func TestTorture_postgres_restarts(t *testing.T) {
	servertest.Long(t)
	server := servertest.NewPostgres(t)
	t.Setenv("LEASING_TEST_POSTGRES", server.URL)
	o, crashes := options(), 0
	o.Writers, o.Rounds = 16, 1 // in the other runs, four writers are processes
	p := newPool(t)
	o.Beside = func(ctx context.Context, _ sequencetest.Acknowledge) {
		ctx, cancel := context.WithTimeout(ctx, o.For-3*time.Second) // afterwards the last cleaner needs the server
		defer cancel()
		for wait(ctx, 500*time.Millisecond+rand.N(time.Second)) {
			assert.NoError(t, server.Crash(context.WithoutCancel(ctx)))
			crashes++
		}
	}
	checkTorture(t, sequencetest.Torture(t, sequencetest.Database[pgx.Tx](p), o, nil), o)
	require.Positive(t, crashes)
}

func checkTorture(t *testing.T, h *sequencetest.History, o sequencetest.TortureOptions) {
	t.Helper()
	t.Log(h)
	require.Empty(t, h.Check())
	require.Greater(t, len(h.Entries), 20)
	if o.Rounds > 1 && o.For > 30*time.Second {
		require.Positive(t, h.Misplaced, "no reader noticed a restore")
		require.Positive(t, h.Refused)
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// process is the configuration of a process, as JSON in its environment. A process without a Name
// is a cleaner.
type process struct {
	URL, Schema, Path, Name string
	Lease, Pause            time.Duration
}

const writerVariable = "LEASING_TEST_SEQUENCE_WRITER"

// asWriter runs the writer if this process was started as a writer.
func asWriter() {
	if config := os.Getenv(writerVariable); config != "" {
		fmt.Fprintln(os.Stderr, writerMain(config))
		os.Exit(1)
	}
}

// writerMain is the main function of a process: it prints each result that it gets, until the test
// kills the process.
func writerMain(text string) error {
	var p process
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	ctx := context.Background()
	if p.Path != "" {
		s := &sqlite{path: p.Path}
		db, err := s.connect()
		if err != nil {
			return err
		}
		store, err := newStore[*sql.Tx](&sqliteDatabase{db: db, turn: make(chan struct{}, 1)}, stepped(sqliteDialect, "clock"), Options{Audit: true}, nil)
		if err == nil {
			runProcess(ctx, store, s.Insert, p)
		}
		return err
	}
	connections, err := pgxpool.New(ctx, p.URL)
	if err != nil {
		return err
	}
	store, err := openStepped(connections, p.Schema)
	if err == nil {
		runProcess(ctx, store, (&pool{postgres: &postgres{schema: p.Schema}}).Insert, p)
	}
	return err
}

func runProcess[Tx any](ctx context.Context, store *Store[Tx], insert func(context.Context, Tx, string) error, p process) {
	o := sequencetest.TortureOptions{Lease: p.Lease, Pause: p.Pause, Seed: uint64(time.Now().UnixNano())}
	if p.Name == "" {
		sequencetest.Clean(ctx, store, insert, o)
		return
	}
	sequencetest.Write(ctx, store, insert, o, p.Name, func(op string, seq int64) { _, _ = fmt.Println(op, seq) })
}

var processCount atomic.Int64

// killProcesses runs four writers and a cleaner at a time, each in a process of its own, until ctx ends, and kills each after a
// while. Before that, it pauses some of them past their leases. It returns the number of killed writers that had reported a
// commit.
func killProcesses(ctx context.Context, t *testing.T, p process, acknowledge sequencetest.Acknowledge) (killed int) {
	var mu sync.Mutex
	var group sync.WaitGroup
	for slot := range 5 {
		group.Go(func() {
			for ctx.Err() == nil {
				p := p
				if slot > 0 {
					p.Name = fmt.Sprintf("p%d.%d", slot, processCount.Add(1))
				}
				commits := killProcess(ctx, t, p, acknowledge)
				mu.Lock()
				if commits > 0 {
					killed++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return killed
}

// killProcess runs and kills one process. It returns the number of commits that the process reported.
func killProcess(ctx context.Context, t *testing.T, p process, acknowledge sequencetest.Acknowledge) (commits int) {
	config, err := json.Marshal(p)
	if !assert.NoError(t, err) {
		return 0
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerVariable+"="+string(config))
	cmd.Stderr = os.Stderr
	output, input, err := os.Pipe()
	if !assert.NoError(t, err) {
		return 0
	}
	cmd.Stdout = input
	process, err := servertest.StartProcess(cmd)
	_ = input.Close()
	if !assert.NoError(t, err) {
		return 0
	}
	first := make(chan struct{})
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewReader(output); ; commits++ {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			var op string
			var seq int64
			_, err = fmt.Sscan(line, &op, &seq)
			assert.NoError(t, err, line)
			acknowledge(op, seq)
			if commits == 0 {
				close(first)
			}
		}
	}()
	var cleaner <-chan time.Time // for a writer it is nil, and never receives
	if p.Name == "" {
		cleaner = time.After(time.Second)
	}
	select {
	case <-first: // the process is at work now
	case <-read:
	case <-ctx.Done():
	case <-cleaner:
	}
	wait(ctx, rand.N(4*time.Second))
	if rand.N(2) == 0 && process.Pause() == nil {
		wait(ctx, max(2*p.Lease, rand.N(2*p.Pause)))
		assert.NoError(t, process.Resume())
		wait(ctx, rand.N(p.Lease))
	}
	process.Kill()
	<-read
	_ = output.Close()
	return commits
}
