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
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/sequence/sequencetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// options are those of a short run, or of one of two minutes with LEASING_TEST_SLOW.
func options() sequencetest.TortureOptions {
	o := sequencetest.TortureOptions{For: 8 * time.Second, Writers: 12, Cleaners: 6, Readers: 3, Lease: 300 * time.Millisecond, Seed: uint64(time.Now().UnixNano())}
	if os.Getenv("LEASING_TEST_SLOW") != "" {
		o.For = 2 * time.Minute
	}
	return o
}

func TestTorture_sqlite(t *testing.T) {
	t.Parallel()
	s := newSqlite(t)
	o, killed := options(), 0
	o.Beside = func(ctx context.Context, tell sequencetest.Tell) {
		killed = killWriters(ctx, t, writer{Path: s.path}, tell)
	}
	checkTorture(t, sequencetest.Torture(t, sequencetest.Database[*sql.Tx](s), o, nil))
	require.Positive(t, killed, "no writer was killed")
}

func TestTorture_postgres(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	o, killed := options(), 0
	o.Beside = func(ctx context.Context, tell sequencetest.Tell) {
		killed = killWriters(ctx, t, writer{URL: postgresURL(t), Schema: p.schema}, tell)
	}
	checkTorture(t, sequencetest.Torture(t, sequencetest.Database[pgx.Tx](p), o, nil))
	require.Positive(t, killed, "no writer was killed")
}

// The server crashes under everybody, and comes back.
func TestTorture_postgres_restarts(t *testing.T) {
	servertest.Long(t)
	server := servertest.NewPostgres(t)
	t.Setenv("LEASING_TEST_POSTGRES", server.URL)
	o, crashes := options(), 0
	o.Writers = 16 // elsewhere four of them are processes
	p := newPool(t)
	o.Beside = func(ctx context.Context, _ sequencetest.Tell) {
		ctx, cancel := context.WithTimeout(ctx, o.For-3*time.Second) // afterwards the last cleaner needs it
		defer cancel()
		for wait(ctx, 500*time.Millisecond+rand.N(time.Second)) {
			assert.NoError(t, server.Crash(context.WithoutCancel(ctx)))
			crashes++
		}
	}
	checkTorture(t, sequencetest.Torture(t, sequencetest.Database[pgx.Tx](p), o, nil))
	require.Positive(t, crashes)
}

func checkTorture(t *testing.T, h *sequencetest.History) {
	t.Helper()
	t.Log(h)
	require.Empty(t, h.Check())
	require.Greater(t, len(h.Entries), 50)
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// writer is what a writer process is told, as JSON in its environment.
type writer struct {
	URL, Schema, Path, Name string
	Lease                   time.Duration
}

const writerVariable = "LEASING_TEST_SEQUENCE_WRITER"

// writerMain is the life of a writer process: it says what it is told, and is killed in the end.
func writerMain(text string) error {
	var w writer
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return err
	}
	ctx, o := context.Background(), sequencetest.TortureOptions{Lease: w.Lease, Seed: uint64(time.Now().UnixNano())}
	tell := func(op string, seq int64) { _, _ = fmt.Println(op, seq) }
	if w.Path != "" {
		s := &sqlite{path: w.Path}
		db, err := s.connect()
		if err != nil {
			return err
		}
		store, err := OpenSQLite(db, Options{Audit: true})
		if err == nil {
			sequencetest.Write(ctx, store, s.Insert, o, w.Name, tell)
		}
		return err
	}
	p := &pool{postgres: &postgres{schema: w.Schema}}
	connections, err := pgxpool.New(ctx, w.URL)
	if err != nil {
		return err
	}
	store, err := OpenPool(connections, Options{Schema: w.Schema, Audit: true})
	if err == nil {
		sequencetest.Write(ctx, store, p.Insert, o, w.Name, tell)
	}
	return err
}

// killWriters runs four writer processes at a time until ctx ends, and kills each after a while. Some were paused before,
// past their leases. It returns how many it has killed.
func killWriters(ctx context.Context, t *testing.T, w writer, tell sequencetest.Tell) (killed int) {
	w.Lease = options().Lease
	var mu sync.Mutex
	var group sync.WaitGroup
	for slot := range 4 {
		group.Go(func() {
			for life := 0; ctx.Err() == nil; life++ {
				w := w
				w.Name = fmt.Sprintf("p%d.%d", slot, life)
				told := killWriter(ctx, t, w, tell)
				mu.Lock()
				if told > 0 {
					killed++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return killed
}

// killWriter is one process. It returns how much it was told.
func killWriter(ctx context.Context, t *testing.T, w writer, tell sequencetest.Tell) (told int) {
	config, err := json.Marshal(w)
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
		for lines := bufio.NewReader(output); ; told++ {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			var op string
			var seq int64
			_, err = fmt.Sscan(line, &op, &seq)
			assert.NoError(t, err, line)
			tell(op, seq)
			if told == 0 {
				close(first)
			}
		}
	}()
	select {
	case <-first: // then it is in the midst of its work
	case <-read:
	case <-ctx.Done():
	}
	wait(ctx, rand.N(time.Second))
	if rand.N(2) == 0 && process.Pause() == nil {
		wait(ctx, 2*w.Lease)
		assert.NoError(t, process.Resume())
		wait(ctx, rand.N(w.Lease))
	}
	process.Kill()
	<-read
	_ = output.Close()
	return told
}
