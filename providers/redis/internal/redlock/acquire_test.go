package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

func TestRedlockNeedsAMajority(t *testing.T) {
	r, p := newRingOfThree(t)
	r.servers[2].Kill()
	g := p.Take("a", "x", time.Minute)
	require.Equal(t, abstractions.FingerprintOf("x"), p.RecordOf("a").Fingerprint)
	r.servers[1].Kill()
	_, err := p.Try("b", "y", time.Minute)
	redistest.RequireUncertain(t, err)
	_, err = p.RenewGrant(g, time.Minute)
	redistest.RequireUncertain(t, err)
	_, err = p.Inspect(t.Context(), abstractions.InspectRequest{Name: "a"})
	redistest.RequireUncertain(t, err)
	redistest.RequireUncertain(t, p.Ping(t.Context()))
	require.ErrorContains(t, err, r.servers[1].Addr())
	r.eventually(func() bool { return r.holder(0, "b") == "" }, "the vote that was won in vain is taken back")
}

// Usually all nodes store the same token, and there is no second round.
func TestRedlockOneRoundIsEnough(t *testing.T) {
	r, p := newRingOfThree(t)
	g := p.Take("a", "x", time.Minute) // neither the nodes' clocks nor the name are known yet
	var confirmed atomic.Int64
	for _, w := range p.wires {
		w.on(script.Confirm, func(send func() error) error {
			confirmed.Add(1)
			return send()
		})
	}
	for i := range 50 {
		require.NoError(t, p.ReleaseGrant(g))
		r.eventually(func() bool { return r.holders("a", "") == 3 })
		g = p.Take("a", fmt.Sprint("x", i), time.Minute)
	}
	p.settle()
	known := confirmed.Swap(0)
	for i := range 50 {
		p.Take(fmt.Sprint("new", i), "x", time.Minute)
	}
	p.settle()
	t.Logf("%d confirmations for 50 leases of one name, and %d for 50 names", known, confirmed.Load())
	require.Less(t, known, int64(25), "two for each if tokens differ")
	require.Less(t, confirmed.Load(), int64(50), "two for each if tokens differ")
}

// Tokens rise and stay near the clock even if a process misjudges the nodes' clocks.
func TestRedlockTokensStayNearTheClock(t *testing.T) {
	r, p := newRingOfThree(t)
	last := p.Take("a", "x", time.Minute)
	for _, wrong := range []time.Duration{time.Hour, -time.Hour, 30 * 365 * 24 * time.Hour} {
		require.NoError(t, p.ReleaseGrant(last))
		for i := range p.redlock.peers {
			p.redlock.peers[i].clockLead.Add(wrong.Microseconds())
		}
		next := p.Take("a", fmt.Sprint("x", wrong), time.Minute)
		require.Greater(t, next.Token, last.Token)
		now, err := r.admins[0].Time(t.Context()).Result()
		require.NoError(t, err)
		require.Less(t, time.UnixMicro(next.Token).Sub(now), 100*time.Millisecond)
		last = next
	}
}

// A name that nodes have forgotten or lost gets no token that is behind their clocks, since only
// the clocks make the token greater than the forgotten tokens. This holds even if a process
// assumes that the clocks are behind.
func TestRedlockTokenOfAForgottenNameIsNotBeforeTheClock(t *testing.T) {
	r, p := newRingOfThree(t)
	p.Take("other", "x", time.Minute) // the clocks are known now
	p.settle()
	for n := range 5 {
		for i := range p.redlock.peers {
			p.redlock.peers[i].clockLead.Add(-(10 * time.Millisecond).Microseconds())
		}
		now, err := r.admins[0].Time(t.Context()).Result()
		require.NoError(t, err)
		g := p.Take(fmt.Sprint("new", n), "x", time.Minute)
		require.GreaterOrEqual(t, g.Token, now.UnixMicro())
		p.settle()
	}
}

// T54: if a token is ahead of a server's clock, the name is kept until the token is in the past, so that the next token is greater.
func TestTrap_T54_RedlockNameIsKeptUntilItsTokenIsPast(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{Naming: script.Naming{Retention: time.Millisecond}})
	p := r.process()
	p.Take("other", "x", time.Minute) // the servers are known now
	k, server := p.redlock.Naming.Keys("a"), p.redlock.nodes[0]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := range int64(5) {
		now, err := r.admins[0].Time(ctx).Result()
		require.NoError(t, err)
		v, id := vote{}, abstractions.NewID()
		v.readVote(server.Do(ctx, k.Vote(script.Claim{ID: id, TTL: time.Second}, n, now.Add(90*time.Millisecond).UnixMicro())), "a")
		require.Equal(t, forUs, v.choice)
		require.NoError(t, server.Do(ctx, k.Release(id)).Done())
		until, err := r.admins[0].PExpireTime(ctx, k.Name).Result()
		require.NoError(t, err)
		require.GreaterOrEqual(t, until.Milliseconds(), v.token/1000)
	}
}

func TestTrap_T43_RedlockDeadOrFrozenMinorityDelaysNobody(t *testing.T) {
	t.Parallel()
	for what, stop := range map[string]func(r *ring){
		"killed": func(r *ring) { r.servers[0].Kill() },
		"frozen": func(r *ring) { r.servers[0].Pause() },
		"client pause": func(r *ring) {
			require.NoError(r.t, r.admins[0].Do(r.t.Context(), "client", "pause", "60000", "all").Err())
		},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRing(t, 3, Options{})
			p := r.process()
			p.Take("before", "x", 30*time.Second)
			stop(r)
			begun := time.Now()
			for i := range 20 {
				g := p.Take(fmt.Sprint("a", i), "x", 30*time.Second)
				g, err := p.RenewGrant(g, 30*time.Second)
				require.NoError(t, err)
				require.NoError(t, p.ReleaseGrant(g))
			}
			require.Less(t, time.Since(begun), 3*time.Second, "a tenth of one TTL for all of them")
			begun = time.Now()
			for range 6 {
				p.RecordOf("a0")
			}
			require.Less(t, time.Since(begun), 3*time.Second, "it is waited for once, if at all")
			if what == "frozen" {
				r.servers[0].Resume()
			}
		})
	}
}

func TestTrap_T43_RedlockPartialWinsAreUndone(t *testing.T) {
	r, x := newRingOfThree(t)
	y := r.process()
	x.wires[0].cut(lostRequest) // x holds nodes 1 and 2
	g := x.Take("a", "x", time.Minute)
	_, err := y.Try("a", "y", time.Minute)
	held := (*abstractions.HeldError)(nil)
	require.ErrorAs(t, err, &held)
	require.Equal(t, abstractions.FingerprintOf("x"), held.Holder.Fingerprint)
	require.Equal(t, g.Token, held.Holder.Token)
	r.eventually(func() bool { return r.holder(0, "a") == "" })

	z := r.process()
	z.wires[1].cut(lostRequest)
	z.wires[2].cut(lostRequest)
	_, err = z.Try("a", "z", time.Minute)
	redistest.RequireUncertain(t, err)
	r.eventually(func() bool { return r.holder(0, "a") == "" })
	require.Equal(t, 2, r.holders("a", "x"))
}

// A caller that leaves in the middle leaves no vote behind, although its context has ended.
func TestTrap_T43_RedlockUndoIsSentAlthoughTheCallerHasLeft(t *testing.T) {
	r, p := newRingOfThree(t)
	p.Take("before", "x", time.Minute) // servers then have the script and need no second request
	p.settle()
	for name, limit := range map[string]time.Duration{"leaves": time.Minute, "has no more time": 500 * time.Millisecond} {
		gate, open := newGate(t)
		p.wires[1].on(script.Vote, delayed(gate))
		p.wires[2].on(script.Vote, delayed(gate))
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		if limit == time.Minute {
			go func() {
				r.eventually(func() bool { return r.holder(0, name) == "x" })
				cancel()
			}()
		}
		_, err := p.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: "x", Owner: "me", TTL: time.Minute})
		isUnfinished(t, ctx, err)
		r.eventually(func() bool { return r.holder(0, name) == "" })
		open()
		r.eventually(func() bool {
			return r.fence(1, name) > 0 && r.fence(2, name) > 0 && r.holders(name, "") == 3
		}, "what arrives after that is taken back too")
	}
}

// isUnfinished requires that a call ended with its context, or just before.
func isUnfinished(t *testing.T, ctx context.Context, err error) {
	t.Helper()
	require.Error(t, err)
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
		require.Fail(t, "the call ended long before its context")
	}
	require.True(t, errors.Is(err, context.Canceled) || errors.Is(err, abstractions.ErrUnavailable), err)
}

// T55: even if confirmations are lost, the next majority finds a token that is at least
// as high as that of any earlier grant.
func TestTrap_T55_RedlockWriteBacksThatFailLoseNoToken(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{})
	for i := range r.servers { // tokens that differ, and are ahead of the clock
		r.put(i, "a", redistest.Free(time.Now().Add(time.Hour).UnixMicro()+int64(1000*i)))
	}
	var last int64
	granted := 0
	for round := range 60 {
		p := r.process()
		for i, w := range p.wires {
			switch rand.IntN(4) {
			case 0:
				w.on(script.Confirm, lostRequest)
			case 1:
				w.on(script.Confirm, lostReply)
			case 2:
				if i == round%3 { // at most one node, so there is a majority
					w.cut(lostRequest)
				}
			}
		}
		g, err := p.Try("a", fmt.Sprint("x", round), time.Minute)
		if err != nil {
			if !errors.Is(err, abstractions.ErrHeld) { // an earlier release may be in flight to one node
				redistest.RequireUncertain(t, err)
			}
			g = abstractions.Grant{Name: "a", ID: fmt.Sprint("x", round)} // to be cleaned up
			require.NoError(t, r.process().ReleaseGrant(g))
			continue
		}
		granted++
		require.Greater(t, g.Token, last)
		last = g.Token
		atLeast := 0
		for i := range r.servers {
			if r.fence(i, "a") >= g.Token {
				atLeast++
			}
		}
		require.GreaterOrEqual(t, atLeast, 2, "a majority has the fence")
		q := r.process()
		require.NoError(t, q.ReleaseGrant(g))
	}
	require.Greater(t, granted, 10)
}

// T55: the undo of an attempt has no effect if it arrives after the claim has won with its
// next attempt, even on a node that has received only that attempt's request for a vote.
func TestTrap_T55_RedlockLateUndoHitsNoLaterAttempt(t *testing.T) {
	r, p := newRingOfThree(t)
	gate := make(chan struct{})
	for _, w := range p.wires {
		w.on(script.Undo, delayed(gate))
	}
	p.wires[1].on(script.Vote, lostRequest)
	p.wires[2].on(script.Vote, lostRequest)
	_, err := p.Try("a", "x", time.Minute)
	redistest.RequireUncertain(t, err)
	require.Equal(t, "x", r.holder(0, "a"), "not undone yet")
	p.wires[1].on(script.Vote, nil)
	p.wires[2].on(script.Vote, nil)
	p.wires[0].on(script.Confirm, lostRequest)
	g := p.Take("a", "x", time.Minute)
	close(gate)
	p.settle()
	require.Equal(t, 3, r.holders("a", "x"))
	_, err = p.RenewGrant(g, time.Minute)
	require.NoError(t, err)
}

// T55: if a copy of a holder's acquire fails halfway, the undo of the copy takes nothing
// from the holder.
func TestTrap_T55_RedlockUndoTakesNothingFromAHolder(t *testing.T) {
	t.Parallel()
	for _, renewed := range []bool{false, true} {
		r := newRing(t, 3, Options{})
		p, q := r.process(), r.process()
		p.wires[2].cut(lostRequest)
		g := p.Take("a", "x", time.Minute) // on nodes 0 and 1
		if renewed {
			var err error
			p.wires[2].cut(nil)
			g, err = p.RenewGrant(g, time.Minute)
			require.NoError(t, err)
			r.eventually(func() bool { return r.holders("a", "x") == 3 }, "a renewal takes what is missing")
		}
		q.wires[0].cut(lostReply)
		q.wires[2].cut(lostReply)
		_, err := q.Try("a", "x", time.Minute)
		redistest.RequireUncertain(t, err)
		q.settle()
		require.Equal(t, "x", r.holder(0, "a"))
		require.Equal(t, "x", r.holder(1, "a"))
		if renewed {
			require.Equal(t, "x", r.holder(2, "a"))
		}
		p.wires[2].cut(nil)
		_, err = p.RenewGrant(g, time.Minute)
		require.NoError(t, err)
	}
}

// T55: if a copy of an acquire has won a node that the holder did not have, the undo of the
// copy does not free the node after a renewal has counted the node.
func TestTrap_T55_RedlockUndoTakesNoNodeThatWasRenewed(t *testing.T) {
	r, p := newRingOfThree(t)
	q := r.process()
	p.wires[2].cut(lostRequest)
	g := p.Take("a", "x", time.Minute) // on nodes 0 and 1
	p.wires[2].cut(nil)
	gate := make(chan struct{})
	q.wires[0].cut(lostRequest)
	q.wires[1].cut(lostRequest)
	q.wires[2].on(script.Undo, delayed(gate))
	_, err := q.Try("a", "x", time.Minute)
	redistest.RequireUncertain(t, err)
	require.Equal(t, "x", r.holder(2, "a"))
	p.wires[0].cut(lostRequest)
	_, err = p.RenewGrant(g, time.Minute)
	require.NoError(t, err, "on 1 and 2")
	close(gate)
	q.settle()
	require.Equal(t, "x", r.holder(2, "a"))
}

// If a node's reply arrives after the call has returned, and the node holds the claim, the
// node gets the agreed token.
func TestRedlockStragglersGetTheRelease(t *testing.T) {
	r, p := newRingOfThree(t)
	gate := make(chan struct{})
	p.wires[2].on(script.Vote, delayed(gate))
	g := p.Take("a", "x", time.Minute)
	require.Empty(t, r.holder(2, "a"))
	close(gate)
	r.eventually(func() bool { return r.holder(2, "a") == "x" })
	p.settle()
	require.Greater(t, r.fence(2, "a"), g.Token, "a fence is never lowered")
	require.Equal(t, g.Token, p.RecordOf("a").Token)
	r.servers[0].Kill()
	r.eventually(func() bool { return p.RecordOf("a").Token == g.Token })
}

// If no claim has a majority, the claim on the first node wins.
func TestRedlockSplitVotesAreResolved(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{})
	processes := make([]*process, 6)
	for i := range processes {
		processes[i] = r.process()
		for _, w := range processes[i].wires {
			w.on(script.Vote, func(send func() error) error {
				<-time.After(rand.N(2 * time.Millisecond))
				return send()
			})
		}
	}
	for round := range 30 {
		name := fmt.Sprint("a", round)
		var winners sync.Map
		var all sync.WaitGroup
		for i, p := range processes {
			all.Go(func() {
				_, err := p.Try(name, fmt.Sprint("x", i), time.Minute)
				if err == nil {
					winners.Store(i, true)
					return
				}
				assert.ErrorIs(t, err, abstractions.ErrHeld)
			})
		}
		all.Wait()
		n := 0
		winners.Range(func(any, any) bool { n++; return true })
		require.Equal(t, 1, n, "winners")
	}
}

// A claim waits for the first node's answer even if that answer comes last, since other claims give way to the claim
// that has the first node.
func TestRedlockSplitVoteIsTheFirstNodesHoweverLateItAnswers(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{NodeTimeout: 20 * time.Second})
	p := r.process()
	p.Take("before", "x", time.Minute) // loads the script on the servers
	p.settle()
	now := time.Now().UnixMicro()
	r.put(1, "a", redistest.Voted(now, "y", 1, 1, 0))
	r.put(2, "a", redistest.Voted(now, "z", 1, 1, 0))
	p.wires[0].on(script.Vote, func(send func() error) error {
		err := send()
		<-time.After(100 * time.Millisecond)
		r.drop(1, "a")
		r.drop(2, "a")
		return err
	})
	p.Take("a", "x", time.Minute)
}

// If other claims have the first node and the last, the claim gives way: it repeats no request, and takes its vote back.
func TestRedlockSplitVoteGivesWayToTheFirstNode(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{NodeTimeout: 20 * time.Second})
	p := r.process()
	p.Take("before", "x", time.Minute) // loads the script on the servers
	p.settle()
	now := time.Now().UnixMicro()
	r.put(0, "a", redistest.Voted(now, "y", 1, 1, 0))
	r.put(2, "a", redistest.Voted(now, "z", 1, 1, 0))
	var votes [3]atomic.Int64
	for i, w := range p.wires {
		w.on(script.Vote, func(send func() error) error {
			votes[i].Add(1)
			return send()
		})
	}
	_, err := p.Try("a", "x", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrHeld)
	for i := range votes {
		require.EqualValues(t, 1, votes[i].Load(), "votes of server %d", i)
	}
	r.eventually(func() bool { return r.holder(1, "a") == "" })
	require.Equal(t, []string{"y", "z"}, []string{r.holder(0, "a"), r.holder(2, "a")})
}

// If a release has reached only one node when the next claim asks for votes, that claim
// forwards the release, and does not wait for the end of the TTL.
func TestRedlockReleaseIsPassedOn(t *testing.T) {
	r, x := newRingOfThree(t)
	y := r.process()
	g := r.take(x, "a", "x", time.Minute)
	x.wires[1].cut(lostRequest)
	x.wires[2].cut(lostRequest)
	redistest.RequireUncertain(t, x.ReleaseGrant(g))
	begun := time.Now()
	require.Greater(t, y.Obtain("a", "y", time.Minute).Token, g.Token)
	require.Less(t, time.Since(begun), 30*time.Second)
}

func TestTrap_T56_RedlockReleasedByOneNodeIsReleased(t *testing.T) {
	r, p := newRingOfThree(t)
	p.wires[1].on(script.Release, lostRequest)
	p.wires[2].on(script.Release, lostRequest)
	redistest.RequireUncertain(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "a", ID: "x"}))
	for _, w := range p.wires[1:] { // the attempt waits only briefly for the first node
		w.on(script.Vote, func(send func() error) error {
			<-time.After(100 * time.Millisecond)
			return send()
		})
	}
	_, err := p.Try("a", "x", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrReleased)
	p.settle()
	r.eventually(func() bool { return r.holders("a", "") == 3 })
	p.Take("a", "y", time.Minute)
}

// T01: a grant that arrives after the end of its validity is not a lease.
func TestTrap_T01_RedlockGrantThatComesTooLateIsNone(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{NodeTimeout: 25 * time.Second})
	p := r.process()
	gate := make(chan struct{})
	p.wires[1].on(script.Vote, delayed(gate))
	p.wires[2].on(script.Vote, delayed(gate))
	begun := time.Now()
	time.AfterFunc(450*time.Millisecond, func() { close(gate) })
	_, err := p.Try("a", "x", 300*time.Millisecond)
	redistest.RequireUncertain(t, err)
	require.Less(t, time.Since(begun), 5*time.Second)
}

// T01: if the process is paused after a majority has answered, the grant may be too late and is not a lease.
func TestTrap_T01_RedlockMajorityThatIsNoticedTooLateIsNone(t *testing.T) {
	r := New(threeClients(t), true, Options{Naming: script.Naming{Prefix: prefix}, MaxTTL: time.Minute})
	defer r.Close()
	for lapses, want := range map[time.Duration]error{-time.Millisecond: errTooLate, time.Minute: nil} {
		a := &attempt{
			poll: r.newPoll(t.Context(), time.Minute), req: redistest.AcquireRequest("a", "x", time.Minute), validUntil: time.Now().Add(lapses),
			tally: tallyOf(fresh(20), fresh(20), other("y")),
		}
		token, err := a.run(t.Context())
		require.ErrorIs(t, err, want)
		require.Equal(t, err == nil, token == 20)
	}
}

// A node that is in quarantine or out of memory does nothing. If two of these nodes prevent
// a majority, the outcome is certain only if both give the same reason.
func TestRedlockErrorsSayNoMoreThanIsCertain(t *testing.T) {
	r, p := newRingOfThree(t)
	full := func(i int) {
		require.NoError(t, r.admins[i].ConfigSet(t.Context(), "maxmemory", "1").Err())
	}
	full(0)
	g := p.Take("a", "x", time.Minute)
	full(1)
	full(2)
	_, err := p.RenewGrant(g, time.Minute)
	require.NoError(t, err, "a lease is kept where there is no room for another")
	require.NoError(t, r.admins[2].ConfigSet(t.Context(), "maxmemory", "0").Err())
	_, err = p.Try("b", "x", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrThrottled)
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.ErrorContains(t, err, r.servers[0].Addr())
	require.Empty(t, r.holder(2, "b"), "undone before it was said that nothing was done")

	p.wires[2].on(script.Undo, lostReply)
	_, err = p.Try("c", "x", time.Minute)
	redistest.RequireUncertain(t, err) // since a node that has granted the lease may not have undone it
	p.wires[2].on(script.Undo, nil)

	require.NoError(t, r.admins[1].ConfigSet(t.Context(), "maxmemory", "0").Err())
	r.put(1, "d", redistest.Voted(1, "y", 1, 1, 0))
	_, err = p.Try("d", "x", time.Minute)
	held := (*abstractions.HeldError)(nil) // since two nodes have memory, and don't agree
	require.ErrorAs(t, err, &held)
	require.True(t, held.Holder.Unconfirmed, "the third may be for either")
	require.Positive(t, held.RetryAfter)

	p.wires[1].cut(lostRequest)
	_, err = p.Try("e", "x", time.Minute)
	redistest.RequireUncertain(t, err)
	require.ErrorIs(t, err, errLostOnTheWay, "the client's error can be reached")
}

// T128: no token follows the highest possible token, even if an operator has written it by hand.
func TestTrap_T128_RedlockNoTokenFollowsTheLast(t *testing.T) {
	r, p := newRingOfThree(t)
	for i := range r.servers {
		r.put(i, "a", redistest.Free(abstractions.MaxToken))
	}
	_, err := p.Try("a", "x", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	require.NotErrorIs(t, err, abstractions.ErrUnavailable)
	require.False(t, p.RecordOf("a").Held)
}
