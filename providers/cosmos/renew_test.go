package cosmoslease

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// A loss is reported only when it is certain, and a lagging replica proves nothing.
func TestAStaleReadIsNoLoss(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		b.release(b.acquire("n", "before"))
		g := b.acquire("n", "a")
		stateless := renewRequest(g)
		stateless.State = nil
		for lag := 3; lag > 0; lag-- { // the renewal reads no document, or an earlier version
			other := b.process() // has no session
			b.account.Before(faultOn(cosmostest.ReadItem, cosmostest.Fault{Stale: true, Lag: lag}))
			require.NoError(t, other.Ping(t.Context()))
			b.account.Record()
			next, err := other.Renew(t.Context(), stateless)
			require.NoError(t, err)
			require.Equal(t, g.Token, next.Token)
			require.LessOrEqual(t, len(b.verbs()), 4, "a write that is refused, and what it then takes")
			b.account.Before(nil)
		}
		_, err := b.renew(g)
		require.NoError(t, err)
	})
}

// The refusal of a write shows that the document exists, so a read that finds none is
// wrong.
func TestAReadThatMissesTheDocumentIsNoLoss(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		b.loseReply(cosmostest.ReplaceItem, func() error { _, err := b.renew(g); return err })
		b.account.Before(faultOn(cosmostest.ReadItem, cosmostest.Fault{Status: 404}))
		_, err := b.renew(g)
		requireUnknown(t, err)
		b.account.Before(nil)
		_, err = b.renew(g)
		require.NoError(t, err)
	})
}

// T23: a claim that ran out, and was acquired again under the same ID, has a new token,
// and the new grant does not revive the former grant.
func TestTrap_T23_AnEarlierGrantOfTheSameIDIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		time.Sleep(time.Minute + b.Capabilities().Lateness.Fixed)
		next := b.acquire("n", "a")
		require.Greater(t, next.Token, g.Token)
		_, err := b.renew(g)
		requireLost(t, abstractions.LostTaken, err)
		_, err = b.renew(next)
		require.NoError(t, err)
	})
}

// A lease that has run out is lost, whether or not another claim has followed.
func TestALeaseThatRanOutIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		time.Sleep(time.Hour)
		require.False(t, b.inspect("n").Held)
		_, err := b.renew(g)
		requireLost(t, abstractions.LostExpired, err)
		other := b.acquire("n", "b")
		_, err = b.renew(g)
		requireLost(t, abstractions.LostTaken, err)
		b.release(other)
		_, err = b.renew(g)
		requireLost(t, abstractions.LostTaken, err)
	})
}

// A break of a lease that has run out ends no claim.
func TestABreakOfALeaseThatRanOut(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		time.Sleep(time.Hour)
		r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
		require.NoError(t, err)
		require.Equal(t, abstractions.BreakResult{Token: g.Token}, r)
		_, err = b.renew(g)
		requireLost(t, abstractions.LostExpired, err)
	})
}

// A grant's state is used for its own claim only.
func TestTrap_T26_TheStateOfAnotherClaimIsNotUsed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		other := b.acquire("m", "b")
		for _, state := range []any{other.State, "nonsense"} {
			with := renewRequest(g)
			with.State = state
			_, err := b.Renew(t.Context(), with)
			require.NoError(t, err)
		}
		stranger := releaseRequest(g)
		stranger.ID = "c"
		require.NoError(t, b.Release(t.Context(), stranger))
		require.True(t, b.inspect("n").Held)
	})
}

// A copy of an acquire that arrives late prolongs a claim with less time than the
// copy's TTL, and never shortens a claim.
func TestALateCopyOfAnAcquireNeverShortens(t *testing.T) {
	for _, passed := range []time.Duration{0, time.Minute, 2*time.Minute - 4*time.Second, 2*time.Minute + 30*time.Second} {
		inBubble(t, func(t *testing.T, b *bed) {
			g := b.acquire("n", "a")
			longer := renewRequest(g)
			longer.TTL = 3 * time.Minute
			_, err := b.Renew(t.Context(), longer)
			require.NoError(t, err)
			time.Sleep(passed)
			before := b.inspect("n").ExpiresAt
			copied := b.acquire("n", "a") // for a minute
			require.Equal(t, g.Token, copied.Token)
			after := b.inspect("n").ExpiresAt
			require.False(t, after.Before(before), "shortened by %v after %v", before.Sub(after), passed)
			require.LessOrEqual(t, after.Sub(before), time.Minute, "nor prolonged beyond need")
			require.GreaterOrEqual(t, after.Sub(b.inspect("n").Now), time.Minute)
		})
	}
}

// A break without Immediate does not move the end of a lease.
func TestABreakProlongsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		b.acquire("n", "a")
		before := b.inspect("n")
		for range 3 {
			time.Sleep(15 * time.Second)
			r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
			require.NoError(t, err)
			require.True(t, r.WasHeld)
			record := b.inspect("n")
			require.True(t, record.Breaking)
			require.Equal(t, before.ExpiresAt, record.ExpiresAt)
			require.Equal(t, record.ExpiresAt.Sub(record.Now), r.Remaining)
		}
	})
}

// A broken ID stays refused after other claims have had the name, even for a copy of
// its acquire that arrives very late.
func TestTrap_T56_ABrokenIDIsRefusedForGood(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		b.acquire("n", "a")
		_, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		_, err = b.try("n", "a")
		require.ErrorIs(t, err, abstractions.ErrReleased, "it has run out")
		b.release(b.acquire("n", "b"))
		_, err = b.try("n", "a")
		require.ErrorIs(t, err, abstractions.ErrReleased, "and others have had it")
	})
}
