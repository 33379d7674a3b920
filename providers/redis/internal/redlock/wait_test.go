package redlock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// register registers a claim as a waiter for a name that is held.
func (p *process) register(name, id string) <-chan struct{} {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	p.t.Cleanup(cancel)
	w, err := p.Wait(ctx, abstractions.WaitRequest{Name: name, ID: id})
	require.NoError(p.t, err)
	_, err = p.Try(name, id, time.Minute)
	require.ErrorIs(p.t, err, abstractions.ErrHeld)
	return w.C
}

// registerInQueue registers a claim as a waiter, on the node that has the queue.
func (p *process) registerInQueue(ctx context.Context, name, id string) abstractions.Wakeups {
	p.t.Helper()
	p.prepare()
	w, err := p.Wait(ctx, abstractions.WaitRequest{Name: name, ID: id})
	require.NoError(p.t, err)
	return w
}

// The queue is on the first node that can be reached.
func TestRedlockWaitersQueueAtTheFirstNodeThatWorks(t *testing.T) {
	r, holder := newRingOfThree(t)
	first, second := r.process(), r.process()
	r.servers[0].Kill()
	g := holder.Take("a", "x", time.Minute)
	one, two := first.register("a", "y"), second.register("a", "z")
	require.NoError(t, holder.ReleaseGrant(g))
	redistest.AwaitWakeup(t, one)
	_, err := holder.Try("a", "w", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrHeld, "it is the waiter's turn")
	g = first.Obtain("a", "y", time.Minute)
	require.NoError(t, first.ReleaseGrant(g))
	redistest.AwaitWakeup(t, two)
	second.Obtain("a", "z", time.Minute)
}

// joins repeats the acquire of a waiting claim until the claim is the n-th in the queue of a server.
func (r *ring) joins(p *process, id string, server, n int) {
	r.t.Helper()
	r.eventually(func() bool {
		_, err := p.Try("a", id, time.Minute)
		require.ErrorIs(r.t, err, abstractions.ErrHeld)
		waiting := r.admins[server].ZRange(r.t.Context(), r.keys("a").Queue, 0, -1).Val()
		return len(waiting) == n && strings.HasPrefix(waiting[n-1], id+" ")
	})
}

// inTurn releases claim x, and requires that claim y is served before claim z.
func (r *ring) inTurn(holder, first, second *process, g abstractions.Grant, one, two <-chan struct{}) {
	r.t.Helper()
	for len(one) > 0 { // wake-ups from the start of the subscriptions
		<-one
	}
	require.NoError(r.t, holder.ReleaseGrant(g))
	redistest.AwaitWakeup(r.t, one)
	g = first.Obtain("a", "y", time.Minute)
	require.NoError(r.t, first.ReleaseGrant(g))
	redistest.AwaitWakeup(r.t, two)
	second.Obtain("a", "z", time.Minute)
}

// The server with the queue dies, or loses its data, while a claim waits in its queue. Later claims queue at the next
// server, and the claim that has waited for longer is served before the later claims.
func TestTrap_T102_RedlockWaiterOfAQueueThatIsGoneIsNotOvertaken(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(s *redistest.Server){
		"dead":          func(s *redistest.Server) { s.Kill() },
		"in quarantine": (*redistest.Server).RestartEmpty,
	} {
		t.Run(what, func(t *testing.T) {
			r, holder := newRingOfThree(t)
			first, second := r.process(), r.process()
			g := holder.Take("a", "x", time.Minute)
			one := first.register("a", "y")
			spoil(r.servers[0])
			r.joins(first, "y", 1, 1)
			two := second.register("a", "z")
			r.joins(second, "z", 1, 2)
			r.inTurn(holder, first, second, g, one, two)
		})
	}
}

// The server that has the queue did not answer a new waiter, which therefore waits at another server. Claims in the
// shared queue do not overtake the waiter.
func TestTrap_T102_RedlockWaiterAtAnotherServerJoinsTheQueue(t *testing.T) {
	r, holder := newRingOfThree(t)
	first, second := r.process(), r.process()
	g := holder.Take("a", "x", time.Minute)
	r.eventually(func() bool { return first.Ping(t.Context()) == nil })
	first.redlock.peers[0].silent.Store(true)
	one := first.register("a", "y")
	require.EqualValues(t, 1, r.admins[1].ZCard(t.Context(), r.keys("a").Queue).Val())
	r.joins(first, "y", 0, 1)
	two := second.register("a", "z")
	r.joins(second, "z", 0, 2)
	r.inTurn(holder, first, second, g, one, two)
}

// A server in quarantine casts no vote, so it reserves no name for a waiter.
func TestRedlockWaitersDoNotQueueAtANodeThatCastsNoVote(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{})
	marker := r.options.Naming.Marker()
	words := strings.Fields(r.admins[0].Get(t.Context(), marker).Val())
	require.Len(t, words, 3)
	words[0] = fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())
	require.NoError(t, r.admins[0].Set(t.Context(), marker, strings.Join(words, " "), 0).Err())
	holder, first, second := r.process(), r.process(), r.process()
	g := holder.Take("a", "x", time.Minute)
	one, two := first.register("a", "y"), second.register("a", "z")
	require.Zero(t, r.admins[0].ZCard(t.Context(), r.keys("a").Queue).Val())
	require.EqualValues(t, 2, r.admins[1].ZCard(t.Context(), r.keys("a").Queue).Val())
	require.NoError(t, holder.ReleaseGrant(g))
	redistest.AwaitWakeup(t, one)
	_, err := holder.Try("a", "w", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrHeld, "it is the waiter's turn")
	g = first.Obtain("a", "y", time.Minute)
	require.NoError(t, first.ReleaseGrant(g))
	redistest.AwaitWakeup(t, two)
	second.Obtain("a", "z", time.Minute)
}

// The node that has the queue has lost the lease, so a waiter wins that node and no
// other. The waiter's place in the queue is kept for the release.
func TestTrap_T32_RedlockWaiterOfANodeThatLostTheLeaseIsWoken(t *testing.T) {
	r, holder := newRingOfThree(t)
	waiter := r.process()
	g := r.take(holder, "a", "x", time.Minute)
	r.drop(0, "a")
	wakeups := waiter.register("a", "y")
	require.Empty(t, r.holder(0, "a"))
	require.NoError(t, holder.ReleaseGrant(g))
	redistest.AwaitWakeup(t, wakeups)
	waiter.Obtain("a", "y", time.Minute)
}

// The node that has the queue is slow. The other nodes refuse the waiter before the release
// arrives, so no wake-up would follow for the waiter.
func TestTrap_T32_RedlockReleaseBeforeTheQueueAnswersIsNotMissed(t *testing.T) {
	r, holder := newRingOfThree(t)
	waiter := r.process()
	g := r.take(holder, "a", "x", time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := waiter.Wait(ctx, abstractions.WaitRequest{Name: "a", ID: "y"})
	require.NoError(t, err)
	waiter.wires[0].on(script.Vote, func(send func() error) error {
		<-time.After(10 * headStart)
		require.NoError(t, holder.ReleaseGrant(g))
		r.eventually(func() bool { return r.holders("a", "") == 3 })
		return send()
	})
	if _, err = waiter.Try("a", "y", time.Minute); err != nil {
		require.ErrorIs(t, err, abstractions.ErrHeld)
		redistest.AwaitWakeup(t, w.C)
	}
}

// The release arrives while another claim, which gets no majority, holds the node with the queue.
func TestTrap_T32_RedlockWakeupThatIsMissedComesLater(t *testing.T) {
	r, holder := newRingOfThree(t)
	waiter, third := r.process(), r.process()
	g := r.take(holder, "a", "x", time.Minute)
	wakeups := waiter.register("a", "y")
	r.drop(0, "a")
	gate := make(chan struct{})
	third.wires[0].on(script.Undo, delayed(gate))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := third.Acquire(ctx, abstractions.AcquireRequest{Name: "a", ID: "z", Owner: "me", TTL: time.Minute})
	require.ErrorIs(t, err, abstractions.ErrHeld)
	require.Equal(t, "z", r.holder(0, "a"), "not undone yet")
	require.NoError(t, holder.ReleaseGrant(g))
	r.eventually(func() bool { return r.holders("a", "") == 2 })
	holder.settle()
	require.EqualValues(t, 1, r.admins[0].ZCard(t.Context(), r.keys("a").Queue).Val(), "woken now it would ask in vain")
	close(gate)
	redistest.AwaitWakeup(t, wakeups)
	waiter.Obtain("a", "y", time.Minute)
}

// A process whose subscription fails everywhere polls. It does not wait a second time for servers that do
// not answer.
func TestRedlockWaitNeedsANode(t *testing.T) {
	t.Parallel()
	for what, stop := range map[string]func(s *redistest.Server){"killed": (*redistest.Server).Kill, "frozen": (*redistest.Server).Pause} {
		t.Run(what, func(t *testing.T) {
			r := newRing(t, 3, Options{})
			p := r.process()
			for _, server := range r.servers {
				stop(server)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, err := p.Wait(ctx, abstractions.WaitRequest{Name: "a", ID: "x"})
			redistest.RequireUncertain(t, err)
			require.NotErrorIs(t, err, errSilent)
			redistest.RequireUncertain(t, second(p.Try("a", "x", time.Minute)))
			_, err = p.Wait(ctx, abstractions.WaitRequest{Name: "a", ID: "x"})
			redistest.RequireUncertain(t, err)
			require.ErrorIs(t, err, errSilent, "they are not waited for again")
			require.NoError(t, ctx.Err())
			if what == "frozen" {
				for _, server := range r.servers {
					server.Resume()
				}
			}
		})
	}
}

// A majority that answers a little earlier than the node that has the queue does not skip
// the next waiter.
func TestRedlockNewcomersLearnWhoseTurnItIs(t *testing.T) {
	r, p := newRingOfThree(t)
	p.Take("first", "x", time.Minute) // so that servers have the script
	p.settle()
	others := make(chan struct{}, 2)
	p.wires[0].on(script.Vote, func(send func() error) error {
		<-others
		<-others
		return send()
	})
	for _, w := range p.wires[1:] {
		w.on(script.Vote, func(send func() error) error {
			defer func() { others <- struct{}{} }()
			return send()
		})
	}
	refused := 0
	for i := range 40 {
		name := fmt.Sprint("a", i)
		now, err := r.admins[0].Time(t.Context()).Result()
		require.NoError(t, err)
		r.put(0, name, redistest.Reserved(now.UnixMicro(), now.Add(30*time.Second), "y"))
		_, err = p.Try(name, "x", time.Minute)
		if err != nil {
			require.ErrorIs(t, err, abstractions.ErrHeld)
			refused++
		}
		p.settle()
	}
	require.Greater(t, refused, 10, "of 40")
}

// The node that has the queue is in quarantine, and receives the release before the
// waiter joins: no release will wake the waiter.
func TestTrap_T81_RedlockReleaseBeforeTheQueueInQuarantineIsNotMissed(t *testing.T) {
	r, holder := newRingOfThree(t)
	waiter := r.process()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := waiter.registerInQueue(ctx, "a", "y")
	losses["flushed"](r, 0)
	g := holder.Take("a", "x", time.Minute)
	holder.settle()
	released := sync.OnceFunc(func() {
		<-time.After(10 * headStart)
		assert.NoError(t, holder.ReleaseGrant(g))
	})
	waiter.wires[0].on(script.Vote, func(send func() error) error {
		released()
		return send()
	})
	if _, err := waiter.Try("a", "y", time.Minute); err != nil {
		redistest.AcquireOnWakeups(t, w.C, func() error { return second(waiter.Try("a", "y", time.Minute)) })
	}
}

// The node in quarantine wakes the waiter before the others have received the release.
// It does not wake the waiter a second time.
func TestTrap_T81_RedlockWaiterThatAQuarantinedNodeWakesEarlyGetsTheName(t *testing.T) {
	r, holder := newRingOfThree(t)
	waiter := r.process()
	wakeups := waiter.registerInQueue(t.Context(), "a", "y").C
	losses["flushed"](r, 0)
	g := holder.Take("a", "x", time.Minute)
	_, err := waiter.Try("a", "y", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrHeld)
	gate, open := newGate(t)
	holder.wires[1].on(script.Release, delayed(gate))
	holder.wires[2].on(script.Release, delayed(gate))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = holder.ReleaseGrant(g) // the release may take longer than its time limit
	}()
	redistest.AcquireOnWakeups(t, wakeups, func() error { return second(waiter.Try("a", "y", time.Minute)) })
	open()
	<-done
}

// The waiter forwards the release, and one server receives the release before the other: the vote of that server is no
// reason for the waiter to give up, since no further wake-up would follow.
func TestTrap_T81_RedlockReleaseThatIsPassedOnSlowlyIsNotMissed(t *testing.T) {
	r, holder := newRingOfThree(t)
	waiter := r.process()
	wakeups := waiter.registerInQueue(t.Context(), "a", "y").C
	losses["flushed"](r, 0)
	g := holder.Take("a", "x", time.Minute)
	_, err := waiter.Try("a", "y", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrHeld)
	holder.wires[1].on(script.Release, lostRequest)
	holder.wires[2].on(script.Release, lostRequest)
	waiter.wires[1].on(script.Release, func(send func() error) error {
		<-time.After(50 * time.Millisecond)
		return send()
	})
	redistest.RequireUncertain(t, holder.ReleaseGrant(g))
	redistest.AcquireOnWakeups(t, wakeups, func() error { return second(waiter.Try("a", "y", time.Minute)) })
}
