package recipes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/recipes/deadlock"
)

const (
	processes, names = 50, 200
	providers        = 5 // shared by the processes; each provider has a pool of connections
	after, every     = 300 * time.Millisecond, time.Second
)

// In random graphs of holders and waiters, each cycle is found by all its members, and no other
// cycle is found.
func TestEveryCycleIsFoundAndNoOther(t *testing.T) {
	onEach(t, backends, func(t *testing.T, at, _ string) { graphs(t, at) })
	servertest.Long(t)
	onEach(t, others, func(t *testing.T, at, _ string) { graphs(t, at) })
}

// graphs arranges a random graph of holders and waiters, and compares the cycles.
func graphs(t *testing.T, at string) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	var holder, wants []int
	var expected map[string]string // by who finds it
	for len(expected) < 3 {
		holder, wants = draw(random)
		expected = map[string]string{}
		for p := range wants {
			if way := cycleOf(holder, wants, p); way != "" {
				expected[fmt.Sprint("process ", p)] = way
			}
		}
	}

	var opened [providers]leasing.Provider
	for i := range opened {
		opened[i] = provider(t, at)
	}
	found := make(chan *deadlock.Error, processes*processes)
	actors := make([]*deadlock.Actor, processes)
	for p := range actors {
		m := manager(t, opened[p%providers], leasing.Options{Owner: fmt.Sprint("process ", p), TTL: time.Minute})
		var err error
		actors[p], err = deadlock.New(m, deadlock.Options{After: after, Every: every, Policy: deadlock.Report, Observer: func(e *deadlock.Error) { found <- e }})
		require.NoError(t, err)
	}
	for n, p := range holder {
		if p < 0 {
			continue
		}
		l, err := actors[p].TryAcquire(t.Context(), fmt.Sprint("name ", n))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Release(context.Background())) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for p, n := range wants {
		if n >= 0 {
			all.Go(func() {
				if _, err := actors[p].Acquire(ctx, fmt.Sprint("name ", n)); ctx.Err() == nil {
					t.Errorf("process %d: %v", p, err)
				}
			})
		}
	}

	began := time.Now()
	timeout := time.After(atMost)
	for seen := map[string]bool{}; len(seen) < len(expected); {
		select {
		case e := <-found:
			finder := e.Waits[0].Owner
			require.Equal(t, expected[finder], e.Error())
			require.False(t, seen[finder], "once")
			seen[finder] = true
		case <-timeout:
			require.FailNow(t, "cycles were not found", "%d of %d seen", len(seen), len(expected))
		}
	}
	t.Logf("%d processes in cycles knew after %v", len(expected), time.Since(began).Round(time.Millisecond))
	select {
	case e := <-found:
		require.Fail(t, "and no other", "%v", e)
	case <-time.After(2 * every):
	}
}

// draw draws the holder of each name (-1 for a free name), and the name that each process wants (-1 for no name).
func draw(random *rand.Rand) (holder, wants []int) {
	holder, wants = make([]int, names), make([]int, processes)
	var held []int
	for n := range holder {
		if holder[n] = random.IntN(processes+processes/4) - processes/4; holder[n] >= 0 {
			held = append(held, n)
		}
	}
	for p := range wants {
		if wants[p] = -1; random.IntN(10) > 1 {
			wants[p] = held[random.IntN(len(held))]
		}
	}
	return holder, wants
}

// cycleOf returns the text of the cycle of a process, which begins with the process; ""
// without a cycle.
func cycleOf(holder, wants []int, process int) string {
	waits := []deadlock.Wait{{Owner: fmt.Sprint("process ", process)}}
	seen := map[int]bool{}
	for at := process; wants[at] >= 0 && !seen[at]; {
		seen[at] = true
		name := fmt.Sprint("name ", wants[at])
		waits[len(waits)-1].For = name
		if at = holder[wants[at]]; at == process {
			waits[0].Holds = name
			return (&deadlock.Error{Waits: waits}).Error()
		}
		waits = append(waits, deadlock.Wait{Owner: fmt.Sprint("process ", at), Holds: name})
	}
	return ""
}
