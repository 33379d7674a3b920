package recipes_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
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

// assignment is a report of the process: that it works on a partition under a token, or that
// it has ended this work. Moved reports whether another worker gets the partition.
type assignment struct {
	Partition    string
	Token        int64
	At           time.Time
	Ended, Moved bool
}

// share works on a process's share until the process is killed.
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
	report := func(note assignment) {
		mu.Lock()
		defer mu.Unlock()
		note.At = time.Now()
		_ = json.NewEncoder(os.Stdout).Encode(note)
	}
	worker, err := assign.New(m, assign.Options{
		Name: "orders", Partitions: a.Partitions, Worker: a.Worker,
		Work: func(ctx context.Context, partition string, lease *leasing.Lease) error {
			report(assignment{Partition: partition, Token: lease.Token()})
			<-ctx.Done()
			report(assignment{Partition: partition, Token: lease.Token(), Ended: true, Moved: errors.Is(context.Cause(ctx), assign.ErrMoved)})
			return ctx.Err()
		},
	})
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

// workers are processes that share partitions, with their reports.
type workers struct {
	t          *testing.T
	at         string
	ttl        time.Duration
	partitions []string
	processes  map[string]*servertest.Process
	notes      chan func()

	by    map[string]map[string]bool // partitions, by living worker
	works map[string]map[int64]*span // by partition and token
	begun int
	moved int // because another worker gets them
	lost  int // for any other reason, by living workers
}

// span is the time in which a worker worked on a partition, by its own reports.
type span struct{ from, until time.Time }

func (w *workers) start(id string) {
	out, in, err := os.Pipe()
	require.NoError(w.t, err)
	w.processes[id] = run(w.t, &exec.Cmd{Stdout: in}, "share", assigned{At: w.at, Worker: id, TTL: w.ttl, Partitions: w.partitions})
	require.NoError(w.t, in.Close())
	w.by[id] = map[string]bool{}
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

func (w *workers) note(id string, note assignment) {
	of, lives := w.by[id]
	if w.works[note.Partition] == nil {
		w.works[note.Partition] = map[int64]*span{}
	}
	if !note.Ended {
		w.works[note.Partition][note.Token] = &span{note.At, note.At}
	} else {
		w.works[note.Partition][note.Token].until = note.At
	}
	switch {
	case !lives:
	case !note.Ended:
		of[note.Partition] = true
		w.begun++
	default:
		delete(of, note.Partition)
		if note.Moved {
			w.moved++
		} else {
			w.lost++
		}
	}
}

// check checks that no partition had two workers at a time.
func (w *workers) check() {
	for partition, works := range w.works {
		var before span
		for _, token := range slices.Sorted(maps.Keys(works)) {
			require.False(w.t, works[token].from.Before(before.until), "%s: token %d begins before the one before has ended", partition, token)
			before = *works[token]
		}
	}
}

func (w *workers) kill(id string) {
	w.processes[id].Kill()
	delete(w.by, id)
}

// waitUntilEven waits until each partition has one worker and the shares are even, and returns how long that took.
func (w *workers) waitUntilEven() time.Duration {
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

// Eight processes share 64 partitions evenly, even after some are killed and new processes start.
func TestPartitionsAreEvenAmongProcesses(t *testing.T) {
	onEach(t, backends, func(t *testing.T, at, _ string) {
		w := &workers{t: t, at: at, ttl: 4 * time.Second, processes: map[string]*servertest.Process{}, notes: make(chan func(), 10000), by: map[string]map[string]bool{}, works: map[string]map[int64]*span{}}
		for i := range 64 {
			w.partitions = append(w.partitions, fmt.Sprint("p", 10+i))
		}
		provider(t, at) // creates missing tables
		for i := range 8 {
			w.start(fmt.Sprint("w", i))
		}
		w.waitUntilEven()
		change := func(what string, change func(), kept int) {
			begun, moved, lost := w.begun, w.moved, w.lost
			change()
			took := w.waitUntilEven()
			begun, moved, lost = w.begun-begun, w.moved-moved, w.lost-lost
			t.Logf("%s: even after %v, %d partitions moved, %d of them from a worker that lives", what, took.Round(time.Millisecond), begun, moved)
			if lost == 0 { // otherwise the machine is so busy that workers count as dead
				require.Equal(t, 8, begun)
				require.Equal(t, 8-kept, moved)
			}
		}
		for i := range 3 {
			change("killed", func() { w.kill(fmt.Sprint("w", i)) }, 8)
			change("come", func() { w.start(fmt.Sprint("x", i)) }, 0)
		}
		w.check()
	})
}
