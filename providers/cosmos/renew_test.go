package cosmoslease

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// A read from a lagging replica proves nothing, so it never makes a renewal report a loss.
func TestAStaleReadIsNoLoss(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		b.release(b.acquire("n", "before"))
		g := b.acquire("n", "a")
		stateless := renewRequest(g)
		stateless.State = nil
		for lag := 3; lag > 0; lag-- { // the renewal reads no document, or an earlier version
			other := b.process() // a new process, which has no session token
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

// If a renewal's write is refused and the following read finds no document, no loss is
// reported: the refusal shows that the document exists.
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

// T23: if a claim has run out and is acquired again under the same ID, it gets a new token,
// and the former grant stays lost.
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

// A break of a name whose lease has run out reports that the name was not held.
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

// A grant's state is used only for its own claim.
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

// A late copy of an acquire prolongs its claim if less time than the copy's TTL is left,
// and never shortens the claim.
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

// A broken ID stays refused after other claims have had the name, even if a copy of its
// acquire arrives very late.
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
