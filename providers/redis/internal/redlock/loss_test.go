package redlock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/stretchr/testify/require"
)

// losses are the ways in which a server loses its data.
var losses = map[string]func(r *ring, i int){
	"restarted empty": func(r *ring, i int) {
		r.servers[i].Kill()
		r.servers[i].RestartEmpty()
	},
	"flushed": func(r *ring, i int) {
		require.NoError(r.t, r.admins[i].FlushAll(r.t.Context()).Err())
	},
	"restarted from a snapshot": func(r *ring, i int) { // saved before the lease: see snapshot
		r.servers[i].Kill()
		r.servers[i].Restart()
	},
}

// snapshot saves the servers' data.
func (r *ring) snapshot() {
	r.t.Helper()
	for _, admin := range r.admins {
		require.NoError(r.t, admin.Save(r.t.Context()).Err())
	}
}

// T43: in the classic case, client 1 holds servers A and B of three, B loses the lease, and client 2 could then get B and C.
func TestTrap_T43_RedlockNodeThatLostItsDataFormsNoSecondMajority(t *testing.T) {
	t.Parallel()
	for what, lose := range losses {
		t.Run(what, func(t *testing.T) {
			const longest = 3 * time.Second
			r := newRing(t, 3, Options{MaxTTL: longest})
			r.snapshot()
			one, two := r.process(), r.process()
			one.wires[2].cut(lostRequest)
			begun := time.Now()
			g := one.Take("a", "x", longest)
			lose(r, 1)
			lost := time.Now()
			for time.Since(begun) < longest {
				next, err := two.Try("a", "y", longest)
				if time.Since(begun) >= longest {
					break // the lease may have been granted later
				}
				require.Error(t, err, "a second majority: %v", next)
				require.NotErrorIs(t, err, abstractions.ErrReleased)
			}
			next := two.Obtain("a", "y", longest)
			require.Greater(t, next.Token, g.Token)
			r.servers[0].Kill() // now a majority needs the node
			two.Obtain("b", "y", longest)
			require.GreaterOrEqual(t, time.Since(lost), longest, "the node voted before the longest lease had run out")
		})
	}
}

// A server that may have lost its data does not grant, confirm or renew a lease, not even a
// lease that it still has: the lost data may include the end of that lease.
func TestTrap_T43_RedlockNodeInQuarantineSaysNothing(t *testing.T) {
	r, p := newRingOfThree(t)
	require.NoError(t, p.ReleaseGrant(p.Take("free", "x", time.Minute)))
	g := r.take(p, "a", "x", time.Minute)
	p.settle()
	marker := r.options.Naming.Marker()
	text, err := r.admins[1].Get(t.Context(), marker).Result()
	require.NoError(t, err)
	_, run, _ := strings.Cut(text, " ")
	quarantine := fmt.Sprint(time.Now().Add(time.Hour).UnixMilli(), " ", run)
	require.NoError(t, r.admins[1].Set(t.Context(), marker, quarantine, 0).Err())

	k := r.keys("a")
	before, free := r.stored(1, "a"), r.stored(1, "free")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	same := script.Claim{ID: "x", TTL: time.Hour, Content: script.Content{Owner: "me"}}
	for what, op := range map[string]script.Operation{
		"vote":    k.Vote(same, 1<<60, 0),
		"confirm": k.Confirm(same, g.Token+1000, 1<<60),
		"relock":  k.Relock(&abstractions.RenewRequest{ID: "x", Token: g.Token, TTL: time.Hour}, same.Text(), 1<<60),
		"break":   k.Break(abstractions.BreakRequest{Name: "a", Immediate: true}),
		"inspect": k.Inspect(),
		"free":    r.keys("free").Vote(script.Claim{ID: "y", TTL: time.Hour}, 1<<60, time.Now().Add(50*time.Millisecond).UnixMicro()),
	} {
		reply := p.redlock.nodes[1].Do(ctx, op)
		require.NoError(t, reply.Err, what)
		require.EqualValues(t, script.Quarantined, reply.Read().Status, what)
		require.Equal(t, before, r.stored(1, "a"), what)
		require.Equal(t, free, r.stored(1, "free"), what)
		require.LessOrEqual(t, r.left(1, "a"), time.Minute, what)
	}
}

// T44: a server that has forgotten only its scripts keeps its vote, since it has lost no data.
func TestTrap_T44_RedlockScriptFlush(t *testing.T) {
	r, p := newRingOfThree(t)
	flush := func() {
		for _, admin := range r.admins {
			require.NoError(t, admin.ScriptFlush(t.Context()).Err())
		}
	}
	flush()
	g := p.Take("a", "x", time.Minute)
	flush()
	g, err := p.RenewGrant(g, time.Minute)
	require.NoError(t, err)
	flush()
	require.Equal(t, abstractions.FingerprintOf("x"), p.RecordOf("a").Fingerprint)
	flush()
	_, err = p.Try("a", "y", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrHeld)
	flush()
	require.NoError(t, p.ReleaseGrant(g))
	flush()
	p.Take("a", "z", time.Minute)
	p.settle()
	require.Equal(t, 3, r.holders("a", "z"))
}

// T54: the token rises even if nodes lose their data, one after the other, and even if all
// of them forget a name that has been idle for a long time.
func TestTrap_T54_RedlockTokenSurvivesLosses(t *testing.T) {
	t.Parallel()
	const longest = 300 * time.Millisecond
	r := newRing(t, 3, Options{MaxTTL: longest, Naming: script.Naming{Retention: 50 * time.Millisecond}})
	p := r.process()
	var last int64
	hold := func(id string) {
		g := p.Obtain("a", id, longest)
		require.Greater(t, g.Token, last)
		last = g.Token
		_ = p.ReleaseGrant(g) // on a busy machine the lease may run out instead
	}
	for i := range 6 {
		hold(fmt.Sprint("x", i))
		losses["flushed"](r, i%3)
		hold(fmt.Sprint("y", i))
		r.awaitVoting(i % 3)
	}
	for i := range r.servers {
		losses["restarted empty"](r, i)
		r.awaitVoting(i)
		hold(fmt.Sprint("z", i))
	}
	r.eventually(func() bool { return r.fence(0, "a")+r.fence(1, "a")+r.fence(2, "a") == 0 }, "the name is forgotten")
	require.Zero(t, p.RecordOf("a").Token)
	hold("w")
}

// A lease survives if the nodes lose their data one after the other, with time between
// the losses: the renewal restores the lease on a node once the node votes.
func TestRedlockLeaseOutlivesOneNodeAfterTheOther(t *testing.T) {
	t.Parallel()
	const longest = 4 * time.Second // enough for some renewals on a busy machine
	r := newRing(t, 3, Options{MaxTTL: longest, NodeTimeout: time.Second})
	p := r.process()
	g := p.Take("a", "x", longest)
	for i := range r.servers {
		losses["restarted empty"](r, i)
		kept := time.Now()
		r.eventually(func() bool {
			next, err := p.RenewGrant(g, longest)
			if err == nil {
				g, kept = next, time.Now()
			}
			require.Less(t, time.Since(kept), longest, "%v", err)
			return r.holders("a", "x") == 3
		})
	}
	require.NoError(t, p.ReleaseGrant(g))
}

func TestRedlockBootstrap(t *testing.T) {
	t.Parallel()
	ready := func(r *ring) []bool {
		var ready []bool
		for i := range r.servers {
			n, err := r.admins[i].Exists(t.Context(), r.options.Naming.Marker()).Result()
			require.NoError(t, err)
			ready = append(ready, n == 1)
		}
		return ready
	}
	bootstrap := func(r *ring) error {
		return r.process().bootstrap()
	}
	t.Run("new servers vote at once", func(t *testing.T) {
		r := newServers(t, 3, Options{})
		require.NoError(t, bootstrap(r))
		r.process().Take("a", "x", time.Minute)
		require.NoError(t, bootstrap(r), "again")
		require.ErrorIs(t, second(r.process().Try("a", "y", time.Minute)), abstractions.ErrHeld)
	})
	t.Run("without it they wait", func(t *testing.T) {
		r := newServers(t, 3, Options{MaxTTL: 500 * time.Millisecond})
		p := r.process()
		begun := time.Now()
		_, err := p.Try("a", "x", 200*time.Millisecond)
		redistest.RequireUncertain(t, err)
		require.ErrorContains(t, err, "casts no vote")
		require.ErrorContains(t, err, "Provider.Bootstrap")
		p.Obtain("a", "x", 200*time.Millisecond)
		require.GreaterOrEqual(t, time.Since(begun), 500*time.Millisecond)
	})
	t.Run("all have to answer", func(t *testing.T) {
		r := newServers(t, 3, Options{})
		r.servers[2].Kill()
		require.ErrorIs(t, bootstrap(r), abstractions.ErrUnavailable)
		require.NoError(t, r.admins[2].Close())
		r.servers[2].RestartEmpty()
		r.admins[2] = r.servers[2].Client(t)
		require.Equal(t, []bool{false, false, false}, ready(r))
		require.NoError(t, bootstrap(r))
		require.Equal(t, []bool{true, true, true}, ready(r))
	})
	t.Run("also those that somebody has used in vain", func(t *testing.T) {
		r := newServers(t, 3, Options{})
		p := r.process()
		redistest.RequireUncertain(t, second(p.Try("a", "x", time.Minute)))
		require.NoError(t, bootstrap(r))
		p.Take("a", "y", time.Minute)
	})
	t.Run("one that was in use has leases", func(t *testing.T) {
		r := newRing(t, 3, Options{})
		r.process().Take("a", "x", time.Minute)
		losses["flushed"](r, 0)
		losses["flushed"](r, 1)
		require.ErrorIs(t, bootstrap(r), abstractions.ErrInvalid)
		require.Equal(t, []bool{false, false, true}, ready(r))
		redistest.RequireUncertain(t, second(r.process().Try("a", "y", time.Minute)))
	})
}

func second[T any](_ T, err error) error { return err }

// If a server has lost its data but not its scripts, a process that has seen its marker checks the
// marker again, so the server begins its quarantine, and does not stay excluded.
func TestRedlockServerThatWasFlushedBeginsItsQuarantine(t *testing.T) {
	r, p := newRingOfThree(t)
	p.Take("a", "x", time.Minute)
	p.settle()
	losses["flushed"](r, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	op := r.keys("a").Inspect()
	_, err := p.redlock.nodes[1].Do(ctx, op).Record("a")
	var quarantined *script.QuarantinedError
	require.ErrorAs(t, err, &quarantined)
	require.LessOrEqual(t, quarantined.Left, time.Minute)
}
