package redlock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// holdByOther makes another claim hold the name on a server.
func (r *ring) holdByOther(server int, name string) {
	r.t.Helper()
	r.put(server, name, redistest.Voted(time.Now().UnixMicro(), "y", 1, 1, 0))
}

// newGate returns a gate that opens at the latest at the end of the test.
func newGate(t testing.TB) (gate <-chan struct{}, open func()) {
	c := make(chan struct{})
	open = sync.OnceFunc(func() { close(c) })
	t.Cleanup(open)
	return c, open
}

// The claim is requested twice at the same time. The first attempt has the vote of one node and waits for more votes.
// If the second attempt took that vote back, the first might win with a minority. So the second attempt waits for its
// turn before it sends requests.
func TestTrap_T55_RedlockAttemptsOfAClaimTakeTurns(t *testing.T) {
	r, p := newRingOfThree(t)
	p.Take("before", "x", time.Minute) // so that servers have the script
	p.settle()
	for what, q := range map[string]*process{"one": p, "another": r.process()} {
		name := "by " + what + " provider"
		gate, open := newGate(t)
		p.wires[1].on(script.Vote, delayed(gate))
		p.wires[2].on(script.Vote, delayed(gate))
		grants := make(chan abstractions.Grant, 2)
		go func() { grants <- p.Take(name, "x", time.Minute) }()
		r.eventually(func() bool { return r.holder(0, name) == "x" })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := q.Acquire(ctx, redistest.AcquireRequest(name, "x", time.Minute))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, "x", r.holder(0, name))
		go func() { grants <- q.Take(name, "x", time.Minute) }()
		open()
		first, second := <-grants, <-grants
		require.Equal(t, first.Token, second.Token)
		p.wires[1].on(script.Vote, nil)
		p.wires[2].on(script.Vote, nil)
		p.settle()
		_, underWay := turns.Load(claimKey{r.keys(name).Name, "x"})
		require.False(t, underWay)
	}
}

// The lease is requested again while one of its nodes has lost its data, and another
// node is held by another claim. The lease may still have a majority, so its remaining
// votes stay.
func TestTrap_T55_RedlockUndoTakesNothingWhereNodesCastNoVote(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(r *ring, i int){
		"quarantined": losses["flushed"],
		"full":        (*ring).fillMemory,
	} {
		t.Run(what, func(t *testing.T) {
			r := newRing(t, 3, Options{})
			p := r.process()
			p.wires[2].cut(lostRequest)
			g := p.Take("a", "x", time.Minute) // on nodes 0 and 1
			p.wires[2].cut(nil)
			spoil(r, 1)
			r.holdByOther(2, "a")
			_, err := p.Try("a", "x", time.Minute)
			redistest.RequireUncertain(t, err)
			p.settle()
			require.Equal(t, "x", r.holder(0, "a"))
			require.NoError(t, r.admins[2].Del(t.Context(), r.keys("a").Name).Err())
			_, err = p.RenewGrant(g, time.Minute)
			require.NoError(t, err)
		})
	}
}

// The caller leaves when the claim has asked only the node where it is a waiter. The state of the
// other nodes is unknown, so no vote is taken back.
func TestTrap_T55_RedlockUndoTakesNothingBeforeAllAreAsked(t *testing.T) {
	r, p := newRingOfThree(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := p.Wait(ctx, abstractions.WaitRequest{Name: "a", ID: "x"})
	require.NoError(t, err)
	r.take(p, "a", "x", time.Minute)
	p.settle()
	_, err = p.Wait(ctx, abstractions.WaitRequest{Name: "a", ID: "x"})
	require.NoError(t, err)
	brief, leave := context.WithCancel(t.Context())
	p.wires[0].on(script.Vote, func(send func() error) error {
		err := send()
		leave()
		<-time.After(2 * headStart)
		return err
	})
	_, err = p.Acquire(brief, abstractions.AcquireRequest{Name: "a", ID: "x", Owner: "me", TTL: time.Minute})
	require.ErrorIs(t, err, context.Canceled)
	p.settle()
	require.Equal(t, 3, r.holders("a", "x"))
}

// The state of a node decides which votes an undo takes back.
func TestTrap_T55_RedlockUndoTakesBackItsOwnVotesOnly(t *testing.T) {
	t.Parallel()
	const try, before, later = 1007, 1006, 1008
	r := newRing(t, 3, Options{})
	p := r.process()
	k := r.keys("a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, r.admins[0].RPush(t.Context(), k.Queue, "somebody else's").Err())
	for _, c := range []struct {
		what          string
		promise, made int64
		one, all      bool // whether the vote is gone after an undo of this attempt, or of all
	}{
		{"its own", try, try, true, true},
		{"an earlier one's", try, before, false, true},
		{"one that was renewed", try, 0, false, false},
		{"its own, and a later one has asked", later, try, false, false},
		{"an earlier one's, and a later one has asked", later, before, false, false},
		{"a later one's", later, later, false, false},
		{"an earlier one's that alone has asked", before, before, false, false},
	} {
		for _, all := range []bool{false, true} {
			r.put(0, "a", redistest.Voted(20, "x", c.promise, c.made, 10))
			since := int64(try)
			if all {
				since = 1
			}
			op := k.Undo(script.Claim{ID: "x", Place: "channel"}, try, since) // the queue can't be written, which does not prevent the undo
			require.NoError(t, p.redlock.nodes[0].Do(ctx, op).Done(), c.what)
			gone := c.one
			if all {
				gone = c.all
			}
			require.Equal(t, gone, r.holder(0, "a") == "", "%s, all: %v", c.what, all)
		}
	}
}

// Another claim holds a node, and the fate of our votes is unknown: they may be a majority.
func TestTrap_T04_RedlockRefusalIsNotCertainWhileVotesMayBeLeft(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{NodeTimeout: 200 * time.Millisecond})
	p := r.process()
	r.holdByOther(1, "a")
	p.wires[2].on(script.Vote, lostReply)
	p.wires[0].on(script.Undo, lostRequest)
	_, err := p.Try("a", "x", time.Minute)
	redistest.RequireUncertain(t, err)
	require.Equal(t, "x", r.holder(0, "a"))
}

// An attempt's votes stay on a node that its undo did not reach. The next attempt takes these votes back.
func TestTrap_T16_RedlockLaterAttemptUndoesWhatEarlierOnesLeft(t *testing.T) {
	r, p := newRingOfThree(t)
	p.wires[0].on(script.Undo, lostRequest)
	r.holdByOther(1, "a")
	r.holdByOther(2, "a")
	_, err := p.Try("a", "x", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrHeld)
	p.settle()
	require.Equal(t, "x", r.holder(0, "a"))
	p.wires[0].on(script.Undo, nil)
	_, err = p.Try("a", "x", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrHeld)
	p.settle()
	require.Empty(t, r.holder(0, "a"))
}

// A node confirms an attempt's token only if the token is above the node's latest token before the lease:
// another claim may have held the name with a lower token. Once a later attempt has asked for its vote, the node
// confirms no earlier attempt.
func TestTrap_T21_RedlockNodeConfirmsOnlyWhatIsNew(t *testing.T) {
	r, p := newRingOfThree(t)
	k := r.keys("a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, c := range []struct {
		token, try, latest int64
		refused            bool
	}{{29, 7, 31, true}, {30, 7, 31, true}, {31, 7, 31, false}, {32, 7, 32, false}, {32, 8, 32, false}, {32, 6, 31, true}} {
		r.put(0, "a", redistest.Voted(31, "x", 7, 7, 30))
		op := k.Confirm(script.Claim{ID: "x", TTL: time.Minute}, c.token, c.try)
		reply := p.redlock.nodes[0].Do(ctx, op)
		require.NoError(t, reply.Err)
		require.Equal(t, c.refused, reply.Done() != nil, c)
		require.Equal(t, c.latest, r.stored(0, "a").Token)
	}
}

// fillMemory leaves a server no memory for new records.
func (r *ring) fillMemory(server int) {
	r.t.Helper()
	require.NoError(r.t, r.admins[server].ConfigSet(r.t.Context(), "maxmemory", "1").Err())
}

func (r *ring) freeMemory(server int) {
	r.t.Helper()
	require.NoError(r.t, r.admins[server].ConfigSet(r.t.Context(), "maxmemory", "0").Err())
}

// A node that has cast its vote does not receive the confirmation of the token. It still holds the
// claim, so its vote is taken back. Until then the outcome is unknown.
func TestTrap_T16_RedlockNodeThatDoesNotConfirmIsFreed(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{})
	ahead := time.Now().Add(time.Hour).UnixMicro() // so that tokens differ
	r.put(0, "a", redistest.Free(ahead))
	p := r.process()
	p.wires[2].cut(lostRequest)
	p.wires[1].on(script.Confirm, lostRequest)
	_, err := p.Try("a", "x", time.Minute)
	redistest.RequireUncertain(t, err)
	p.settle()
	require.Empty(t, r.holder(0, "a")+r.holder(1, "a"))
	p.wires[1].on(script.Confirm, nil)
	require.Greater(t, p.Take("a", "x", time.Minute).Token, ahead)
}

// One of the nodes that confirmed the claim's token can't vote for a second attempt. A later token that this attempt gets
// belongs to the same lease: no attempt takes the votes back, and the holder of the first token can still renew.
func TestTrap_T13_RedlockLaterTokenIsThatOfTheSameLease(t *testing.T) {
	r, p := newRingOfThree(t)
	q := r.process()
	p.Take("warm", "x", time.Minute)
	p.settle()
	for round := range 5 {
		name := fmt.Sprint("a", round)
		p.wires[2].cut(lostRequest)
		g := p.Take(name, "x", time.Minute) // on nodes 0 and 1
		r.fillMemory(1)
		again, err := q.Try(name, "x", time.Minute)
		r.freeMemory(1)
		require.NoError(t, err)
		require.GreaterOrEqual(t, again.Token, g.Token)
		p.settle()
		q.settle()
		p.wires[2].cut(nil)
		_, err = p.RenewGrant(g, time.Minute)
		require.NoError(t, err)
		p.settle()
		require.Equal(t, 3, r.holders(name, "x"))
		require.GreaterOrEqual(t, p.RecordOf(name).Token, g.Token)
	}
}

// Votes are taken back even if the server has no memory for another entry in the queue, and the
// next waiter is still woken.
func TestTrap_T32_RedlockUndoNeedsNoMemory(t *testing.T) {
	r, holder := newRingOfThree(t)
	waiter, third := r.process(), r.process()
	g := r.take(holder, "a", "x", time.Minute)
	wakeups := waiter.register("a", "y")
	r.drop(0, "a")
	gate, open := newGate(t)
	third.wires[0].on(script.Undo, delayed(gate))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := third.Wait(ctx, abstractions.WaitRequest{Name: "a", ID: "z"})
	require.NoError(t, err)
	brief, leave := context.WithTimeout(ctx, 300*time.Millisecond)
	defer leave()
	_, err = third.Acquire(brief, abstractions.AcquireRequest{Name: "a", ID: "z", Owner: "me", TTL: time.Minute})
	require.ErrorIs(t, err, abstractions.ErrHeld)
	require.Equal(t, "z", r.holder(0, "a"), "not undone yet")
	require.NoError(t, holder.ReleaseGrant(g))
	r.eventually(func() bool { return r.holders("a", "") == 2 })
	r.fillMemory(0)
	open()
	redistest.AwaitWakeup(t, wakeups)
	third.settle()
	require.Empty(t, r.holder(0, "a"))
	r.freeMemory(0)
	waiter.Obtain("a", "y", time.Minute)
}

// A renewal has reached four of five nodes, and an acquire gets no answer from two of these. The
// acquire's refusal still reports the renewed time left.
func TestRedlockTimeLeftIsNotTooShort(t *testing.T) {
	t.Parallel()
	r := newRing(t, 5, Options{})
	p, q := r.process(), r.process()
	g := r.take(p, "a", "x", 10*time.Second)
	p.wires[0].on(script.Relock, lostRequest)
	_, err := p.RenewGrant(g, time.Minute)
	require.NoError(t, err)
	p.settle()
	gate, _ := newGate(t)
	q.wires[3].on(script.Vote, delayed(gate))
	q.wires[4].on(script.Vote, delayed(gate))
	_, err = q.Try("a", "y", time.Minute)
	held := (*abstractions.HeldError)(nil)
	require.ErrorAs(t, err, &held)
	left, known := held.Holder.Remaining()
	require.True(t, known)
	require.Greater(t, left, 30*time.Second)
}

// A release returns once the nodes that can vote have freed the name. The reply of a node that has
// lost its data does not count.
func TestRedlockReleaseIsForThoseWhoVote(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{NodeTimeout: 20 * time.Second})
	p := r.process()
	g := r.take(p, "a", "x", time.Minute)
	losses["flushed"](r, 1)
	p.Take("b", "x", time.Minute) // so that the process finds the quarantine
	p.settle()
	p.wires[2].on(script.Release, func(send func() error) error {
		<-time.After(2 * stragglerTimeout)
		return send()
	})
	require.NoError(t, p.ReleaseGrant(g))
	require.False(t, p.RecordOf("a").Held)
	p.Take("a", "y", time.Minute)
}

// A node that casts no vote still wakes its waiters, and the key of the name on the node still
// expires.
func TestTrap_T32_RedlockWaiterOfANodeInQuarantineIsWoken(t *testing.T) {
	r, holder := newRingOfThree(t)
	waiter := r.process()
	waiter.prepare()
	losses["flushed"](r, 0)
	for end, free := range map[string]func(g abstractions.Grant) error{
		"release": holder.ReleaseGrant,
		"break": func(g abstractions.Grant) error {
			_, err := holder.Break(t.Context(), abstractions.BreakRequest{Name: g.Name, Immediate: true})
			return err
		},
	} {
		g := holder.Take(end, "x", time.Minute)
		wakeups := waiter.register(end, "y-"+end)
		require.NoError(t, free(g))
		redistest.AwaitWakeup(t, wakeups)
		waiter.Obtain(end, "y-"+end, time.Minute)
		kept, err := r.admins[0].PTTL(t.Context(), r.keys(end).Name).Result()
		require.NoError(t, err)
		require.Positive(t, kept, end)
	}
}

// A deferred break, or a break without effect, does not touch waiters and keys on a node in quarantine.
func TestRedlockBreakOfANodeInQuarantineDisturbsNobody(t *testing.T) {
	r, holder := newRingOfThree(t)
	waiter := r.process()
	waiter.prepare()
	losses["flushed"](r, 0)
	holder.Take("a", "x", time.Minute)
	wakeups := waiter.register("a", "y")
	_, err := holder.Break(t.Context(), abstractions.BreakRequest{Name: "a"})
	require.NoError(t, err)
	_, err = holder.Break(t.Context(), abstractions.BreakRequest{Name: "b", Immediate: true})
	require.NoError(t, err)
	holder.settle()
	require.Empty(t, wakeups)
	require.Zero(t, r.fence(0, "a"))
	require.Zero(t, r.admins[0].Exists(t.Context(), r.keys("b").Name).Val())
	require.EqualValues(t, 1, r.admins[0].Exists(t.Context(), r.keys("a").Queue).Val())
}

// Without memory on the servers a release succeeds, and a waiter's acquire is throttled. The waiter
// gets the name once memory is free.
func TestRedlockNameIsHeldWhereThereIsNoMemory(t *testing.T) {
	r, holder := newRingOfThree(t)
	waiter := r.process()
	g := r.take(holder, "a", "x", time.Minute)
	for server := range r.servers {
		r.fillMemory(server)
	}
	waiter.register("a", "y")
	require.NoError(t, holder.ReleaseGrant(g), "a release needs no memory")
	r.eventually(func() bool { return r.holders("a", "") == 3 })
	_, err := holder.Try("a", "x", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrReleased)
	_, err = waiter.Try("a", "y", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrThrottled)
	for server := range r.servers {
		r.freeMemory(server)
	}
	next := waiter.Obtain("a", "y", time.Minute)
	require.Greater(t, next.Token, g.Token)
}

// Two nodes answer, and vote for different claims. The claim on the first of the two nodes gets the
// name. The other claim's error says that the name is held, not that there is an outage.
func TestRedlockSplitVotesAreResolvedWithoutAMinority(t *testing.T) {
	t.Parallel()
	for what, stop := range map[string]func(r *ring){
		"killed": func(r *ring) { r.servers[0].Kill() },
		"frozen": func(r *ring) { r.servers[0].Pause() },
	} {
		t.Run(what, func(t *testing.T) {
			r := newRing(t, 3, Options{NodeTimeout: 2 * time.Second}) // an undo may take that long on a busy machine
			stop(r)
			defer func() {
				if what == "frozen" {
					r.servers[0].Resume()
				}
			}()
			processes := []*process{r.process(), r.process(), r.process()}
			for round := range 5 {
				name := fmt.Sprint("a", round)
				var winners atomic.Int64
				var all sync.WaitGroup
				for i, p := range processes {
					all.Go(func() {
						if _, err := p.Try(name, fmt.Sprint("x", i), time.Minute); err != nil {
							assert.ErrorIs(t, err, abstractions.ErrHeld)
							return
						}
						winners.Add(1)
					})
				}
				all.Wait()
				require.Equal(t, int64(1), winners.Load())
			}
		})
	}
}
