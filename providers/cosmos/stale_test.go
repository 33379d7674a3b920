package cosmoslease

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// lagReplica serves reads from a replica that lacks the last writes. The replica has the writes
// that the reader's session has seen, but a new process has seen no write.
func (b *bed) lagReplica(writes int) {
	b.account.Before(faultOn(cosmostest.ReadItem, cosmostest.Fault{Stale: true, Lag: writes}))
}

// A broken claim is not granted again after a stale read, whatever its remaining time.
func TestAStaleReadGrantsNothing(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"infinite": abstractions.Infinite, "longer than asked for": 2 * time.Minute, "shorter": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bed) {
				ctx := t.Context()
				g, err := b.Acquire(ctx, acquireRequest("n", "a", ttl))
				require.NoError(t, err)
				_, err = b.process().Break(ctx, abstractions.BreakRequest{Name: "n", IfToken: g.Token, Immediate: true})
				require.NoError(t, err)
				other := b.process()
				next, err := other.Acquire(ctx, acquireRequest("n", "b", time.Minute))
				require.NoError(t, err)
				b.lagReplica(2)
				_, err = b.try("n", "a")
				require.ErrorIs(t, err, abstractions.ErrReleased)
				b.account.Before(nil)
				require.Equal(t, abstractions.FingerprintOf("b"), b.inspect("n").Fingerprint)
				_, err = other.Renew(ctx, renewRequest(next))
				require.NoError(t, err)
			})
		})
	}
}

// An acquire of a claim that already holds the name makes a write, and never shortens the claim.
func TestAnAcquireOfWhatIsHeldWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		for _, ttl := range []time.Duration{abstractions.Infinite, time.Hour} {
			name := ttl.String()
			g, err := b.Acquire(t.Context(), acquireRequest(name, "a", ttl))
			require.NoError(t, err)
			before := b.inspect(name)
			b.account.Record()
			again, err := b.Acquire(t.Context(), acquireRequest(name, "a", time.Minute))
			require.NoError(t, err)
			require.Equal(t, []cosmostest.Verb{cosmostest.ReadItem, cosmostest.ReplaceItem}, b.verbs())
			require.Equal(t, g.Token, again.Token)
			after := b.inspect(name)
			require.Equal(t, before.ExpiresAt.IsZero(), after.ExpiresAt.IsZero())
			require.False(t, after.ExpiresAt.Before(before.ExpiresAt))
			_, err = b.renew(again)
			require.NoError(t, err)
		}
	})
}

// T63, T65: a break reports success, or that another lease has followed, only after a
// write has confirmed its read.
func TestAStaleReadBreaksTheLeaseThatThereIs(t *testing.T) {
	for lag := 1; lag <= 4; lag++ {
		for _, immediate := range []bool{true, false} {
			for _, byToken := range []bool{true, false} {
				inBubble(t, func(t *testing.T, b *bed) {
					b.release(b.acquire("n", "a"))
					g := b.acquire("n", "b")
					operator := b.process()
					b.lagReplica(lag)
					req := abstractions.BreakRequest{Name: "n", Immediate: immediate}
					if byToken {
						req.IfToken = g.Token
					}
					r, err := operator.Break(t.Context(), req)
					if err != nil { // the break has read the lease of claim a, but has not written yet
						require.False(t, byToken)
						requireUnknown(t, err)
						r, err = operator.Break(t.Context(), req)
					}
					require.NoError(t, err)
					require.True(t, r.WasHeld)
					require.Equal(t, g.Token, r.Token)
					_, err = b.renew(g)
					requireLost(t, abstractions.LostBroken, err)
				})
			}
		}
	}
}

// If a stale read shows a lease that is already broken, the outcome of a break is unknown, and
// the lease that followed does not end.
func TestAStaleReadOfABrokenLeaseIsNotTheLast(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		_, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
		require.NoError(t, err)
		b.release(g)
		next := b.acquire("n", "b")
		operator := b.process()
		b.lagReplica(2)
		_, err = operator.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
		requireUnknown(t, err)
		_, err = b.renew(next)
		require.NoError(t, err)
	})
}

// A break that ends no lease does not change the remaining time of the holder.
func TestABreakThatIsNotMeantDisturbsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		before := b.inspect("n")
		time.Sleep(10 * time.Second)
		_, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n", IfToken: g.Token + 7})
		require.ErrorIs(t, err, abstractions.ErrStale)
		require.Equal(t, before.ExpiresAt, b.inspect("n").ExpiresAt)
		_, err = b.renew(g)
		require.NoError(t, err)
		r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "never seen"})
		require.NoError(t, err)
		require.Equal(t, abstractions.BreakResult{}, r)
		_, err = b.Break(t.Context(), abstractions.BreakRequest{Name: "nor this", IfToken: 7})
		require.ErrorIs(t, err, abstractions.ErrStale)
	})
}
