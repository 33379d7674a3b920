package redlock

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/stretchr/testify/require"
)

// Several callers request a claim at the same time, and some of their requests are slow or lost.
// The claim still has one token.
func TestTrap_T13_RedlockClaimHasOneToken(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{})
	slow := func(send func() error) error {
		<-time.After(rand.N(3 * time.Millisecond))
		return send()
	}
	processes := []*process{r.process(), r.process(), r.process()}
	for _, p := range processes {
		for _, w := range p.wires {
			w.on(script.Vote, slow)
			w.on(script.Confirm, slow)
		}
	}
	for round := range 30 {
		name := fmt.Sprint("a", round)
		var mu sync.Mutex
		tokens := map[int64]int{}
		var all sync.WaitGroup
		for i := range 9 {
			all.Go(func() {
				g := processes[i%3].Obtain(name, "x", time.Minute)
				mu.Lock()
				defer mu.Unlock()
				tokens[g.Token]++
			})
		}
		all.Wait()
		require.Len(t, tokens, 1)
		for token := range tokens {
			require.Equal(t, token, processes[0].RecordOf(name).Token)
		}
	}
}

// A node hangs, and requests wait behind the hung calls. Requests are dropped unsent once
// their callers have left.
func TestTrap_T56_RedlockRequestsAreNotSentTooLate(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{NodeTimeout: moreCalls / 4})
	for round := 0; !r.withdrawn(fmt.Sprint("a", round)); round++ {
		require.Less(t, round, 20, "the machine is too slow")
	}
}

// A node gets usualCalls calls at a time, and more once these have hung for moreCalls: see package batch.
const (
	usualCalls = 2
	moreCalls  = 250 * time.Millisecond
)

// withdrawn returns false if the test took so long that the node got more calls in addition to
// the hung ones.
func (r *ring) withdrawn(name string) bool {
	p := r.process()
	gate, open := newGate(r.t)
	defer open()
	var hanging atomic.Int64
	began := time.Now()
	p.wires[2].on(script.Vote, func(send func() error) error {
		hanging.Add(1)
		<-gate
		return send()
	})
	for i := range 2 * usualCalls {
		_, _ = p.Try(fmt.Sprint(name, "/", i), "x", time.Minute)
	}
	_, err := p.Try(name, "x", time.Minute)
	if hanging.Load() < usualCalls || err != nil || time.Since(began) > moreCalls/2 {
		return false
	}
	<-time.After(2 * r.options.NodeTimeout)
	open()
	p.settle()
	require.Zero(r.t, r.fence(2, name))
	require.Positive(r.t, r.fence(1, name))
	return true
}

// A repeated acquire extends the lease to the full TTL from that time, and never shortens the lease.
func TestTrap_T13_RedlockRepetitionProlongs(t *testing.T) {
	r, p := newRingOfThree(t)
	p.Take("a", "x", 10*time.Second)
	p.settle()
	for _, ttl := range []time.Duration{time.Minute, time.Second} {
		p.Take("a", "x", ttl)
		p.settle()
		for server := range r.servers {
			require.Greater(t, r.left(server, "a"), 30*time.Second)
		}
	}
}
