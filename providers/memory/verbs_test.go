package memlease

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// TestTrap_T13_LateRepetitionShortensNothing repeats an acquire after the lease was
// renewed for longer, as if the network had delivered the request twice.
func TestTrap_T13_LateRepetitionShortensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		req := acquireRequest("a", time.Second)
		grant := p.mustAcquire(t, req)
		for _, ttl := range []time.Duration{time.Minute, abstractions.Infinite} {
			_, err := p.Renew(t.Context(), abstractions.RenewRequest{Name: "a", ID: req.ID, Token: grant.Token, TTL: ttl})
			require.NoError(t, err)
			require.Equal(t, grant, p.mustAcquire(t, req))
			require.Equal(t, ttl, p.mustInspect(t, "a").TTL)
			time.Sleep(30 * time.Second)
			require.True(t, p.mustInspect(t, "a").Held)
		}
	})
}

// TestTrap_T56_LastIDsAreRefused checks that acquires of several released claims are refused.
func TestTrap_T56_LastIDsAreRefused(t *testing.T) {
	p := New(Options{})
	var given []abstractions.AcquireRequest
	for range 4 {
		req := acquireRequest("a", time.Minute)
		p.mustRelease(t, req)
		p.mustRelease(t, req) // adds no second entry
		given = append(given, req)
	}
	for _, req := range given {
		_, err := p.Acquire(t.Context(), req)
		require.ErrorIs(t, err, abstractions.ErrReleased)
	}
	p.mustAcquire(t, acquireRequest("a", time.Minute))
}

func TestReasonsOfLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		reason := func(req abstractions.AcquireRequest, grant abstractions.Grant) abstractions.LostReason {
			_, err := p.Renew(t.Context(), abstractions.RenewRequest{Name: req.Name, ID: req.ID, Token: grant.Token, TTL: time.Minute})
			var lost *abstractions.LostError
			require.ErrorAs(t, err, &lost)
			return lost.Reason
		}
		first := acquireRequest("a", time.Second)
		grant := p.mustAcquire(t, first)
		time.Sleep(time.Second)
		require.Equal(t, abstractions.LostExpired, reason(first, grant))
		second := acquireRequest("a", time.Minute)
		grant2 := p.mustAcquire(t, second)
		require.Equal(t, abstractions.LostTaken, reason(first, grant))
		_, err := p.Break(t.Context(), abstractions.BreakRequest{Name: "a", Immediate: true})
		require.NoError(t, err)
		require.Equal(t, abstractions.LostBroken, reason(second, grant2))
		p.mustAcquire(t, acquireRequest("a", time.Minute))
		require.Equal(t, abstractions.LostBroken, reason(second, grant2), "also when somebody has followed")
		require.Equal(t, abstractions.LostGone, reason(acquireRequest("unseen", time.Minute), abstractions.Grant{Token: 1}))
	})
}

// TestSameIDAfterExpiryIsANewClaim checks that an old grant of the same ID can't
// renew the new claim.
func TestSameIDAfterExpiryIsANewClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		req := acquireRequest("a", time.Second)
		first := p.mustAcquire(t, req)
		time.Sleep(time.Second)
		second := p.mustAcquire(t, req)
		require.Greater(t, second.Token, first.Token)
		_, err := p.Renew(t.Context(), abstractions.RenewRequest{Name: "a", ID: req.ID, Token: first.Token, TTL: time.Second})
		require.ErrorIs(t, err, abstractions.ErrLost)
	})
}

func TestEndOfATTL(t *testing.T) {
	for _, tt := range []struct {
		from, ttl, want time.Duration
	}{
		{0, 1, 1},
		{5, time.Second, time.Second + 5},
		{5, abstractions.Infinite, never},
		{5, abstractions.Infinite - 1, never - 1},
		{never - 10, 20, never - 1},
	} {
		require.Equal(t, tt.want, ends(tt.from, tt.ttl), "%d + %v", tt.from, tt.ttl)
	}
}

func TestACycleAllocatesNothing(t *testing.T) {
	p := New(Options{})
	reqs := make([]abstractions.AcquireRequest, 100)
	for i := range reqs {
		reqs[i] = acquireRequest("a", time.Minute)
	}
	i := 0
	cycle := func() {
		p.mustAcquire(t, reqs[i%len(reqs)])
		p.mustRelease(t, reqs[i%len(reqs)])
		i++
	}
	cycle() // makes the record
	require.Zero(t, testing.AllocsPerRun(len(reqs)/2, cycle))
}

func TestNamesAreSpreadOverTheShards(t *testing.T) {
	p := New(Options{})
	for i := range 100 * shards {
		p.mustAcquire(t, acquireRequest(fmt.Sprint("a/", i), time.Minute))
	}
	for i := range p.memory.shards {
		require.InDelta(t, 100, len(p.memory.shards[i].records), 70)
	}
}

// BenchmarkCycle measures the provider itself, without a manager.
func BenchmarkCycle(b *testing.B) {
	p := New(Options{})
	reqs := make([]abstractions.AcquireRequest, 1000)
	for i := range reqs {
		reqs[i] = acquireRequest("a", time.Minute)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		req := reqs[i%len(reqs)]
		if _, err := p.Acquire(b.Context(), req); err != nil {
			b.Fatal(err)
		}
		if err := p.Release(b.Context(), abstractions.ReleaseRequest{Name: req.Name, ID: req.ID}); err != nil {
			b.Fatal(err)
		}
	}
}
