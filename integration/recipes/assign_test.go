package recipes_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/recipes/assign"
)

// assigned is the job of a process that works on its share of partitions.
type assigned struct {
	At, Worker string
	TTL        time.Duration
	Partitions []string
}

// assignment is what it tells: that it works on a partition under a token, or does no
// longer, and whether another worker gets it.
type assignment struct {
	Partition    string
	Token        int64
	Ended, Moved bool
}

// share is the life of such a process, until it is killed.
func share(description []byte) error {
	ctx := context.Background()
	var a assigned
	if err := json.Unmarshal(description, &a); err != nil {
		return err
	}
	p, err := openURL(ctx, a.At)
	if err != nil {
		return err
	}
	m, err := leasing.NewManager(p, leasing.Options{TTL: a.TTL})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	tell := func(note assignment) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(os.Stdout).Encode(note)
	}
	worker, err := assign.New(m, assign.Options{
		Name: "orders", Partitions: a.Partitions, Worker: a.Worker,
		Work: func(ctx context.Context, partition string, lease leasing.Lease) error {
			tell(assignment{Partition: partition, Token: lease.Token()})
			<-ctx.Done()
			tell(assignment{Partition: partition, Token: lease.Token(), Ended: true, Moved: context.Cause(ctx) == assign.ErrMoved})
			return ctx.Err()
		},
	})
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

// workers are processes that share partitions, and what they tell.
type workers struct {
	t          *testing.T
	at         string
	ttl        time.Duration
	partitions []string
	processes  map[string]*servertest.Process
	notes      chan func()

	by     map[string]map[string]int64 // tokens, by worker and partition
	latest map[string]int64            // token, by partition
	begun  int
	moved  int
}

func (w *workers) start(id string) {
	out, in, err := os.Pipe()
	require.NoError(w.t, err)
	w.processes[id] = run(w.t, &exec.Cmd{Stdout: in}, "share", assigned{At: w.at, Worker: id, TTL: w.ttl, Partitions: w.partitions})
	require.NoError(w.t, in.Close())
	w.by[id] = map[string]int64{}
	go func() {
		defer out.Close()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var note assignment
			if json.Unmarshal(lines.Bytes(), &note) != nil {
				continue
			}
			w.notes <- func() { w.note(id, note) }
		}
	}()
}

// note checks that a partition has one worker that lives, by the order of its tokens: a later one has it when the
// one before has said that it works no more, or is dead, or its lease has run out.
func (w *workers) note(id string, note assignment) {
	of, lives := w.by[id]
	switch {
	case !lives:
	case note.Ended:
		delete(of, note.Partition)
		if note.Moved {
			w.moved++
		}
	default:
		require.Greater(w.t, note.Token, w.latest[note.Partition], "the token of %s", note.Partition)
		w.latest[note.Partition] = note.Token
		of[note.Partition] = note.Token
		w.begun++
	}
}

func (w *workers) kill(id string) {
	w.processes[id].Kill()
	delete(w.by, id)
}

// even waits until each partition has one worker and the shares are even, and returns how long that took.
func (w *workers) even() time.Duration {
	w.t.Helper()
	began := time.Now()
	limit := time.After(atMost)
	for {
		var held []string
		var counts []int
		for of := range maps.Values(w.by) {
			held = append(held, slices.Collect(maps.Keys(of))...)
			counts = append(counts, len(of))
		}
		slices.Sort(held)
		if slices.Equal(held, w.partitions) && slices.Max(counts)-slices.Min(counts) <= 1 {
			return time.Since(began)
		}
		select {
		case note := <-w.notes:
			note()
		case <-limit:
			require.FailNow(w.t, "not even", "%v", w.by)
		}
	}
}

// Eight processes share 64 partitions. Some are killed, and others come.
func TestPartitionsAreEvenAmongProcesses(t *testing.T) {
	onEach(t, backends, func(t *testing.T, at, _ string) {
		w := &workers{t: t, at: at, ttl: 4 * time.Second, processes: map[string]*servertest.Process{}, notes: make(chan func(), 10000), by: map[string]map[string]int64{}, latest: map[string]int64{}}
		for i := range 64 {
			w.partitions = append(w.partitions, fmt.Sprint("p", 10+i))
		}
		provider(t, at) // creates what is needed
		for i := range 8 {
			w.start(fmt.Sprint("w", i))
		}
		w.even()
		for i := range 3 {
			begun, moved := w.begun, w.moved
			w.kill(fmt.Sprint("w", i))
			took := w.even()
			t.Logf("killed: even after %v, %d partitions changed hands, %d of them from a worker that lives", took.Round(time.Millisecond), w.begun-begun, w.moved-moved)

			begun, moved = w.begun, w.moved
			w.start(fmt.Sprint("x", i))
			took = w.even()
			t.Logf("come: even after %v, %d partitions changed hands, %d of them from a worker that lives", took.Round(time.Millisecond), w.begun-begun, w.moved-moved)
		}
	})
}
