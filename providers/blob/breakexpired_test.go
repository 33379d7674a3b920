package bloblease

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// expires is a claim that has run out.
func (b *bed) expires(name, id string) abstractions.Grant {
	b.t.Helper()
	req := wish(name, id)
	req.TTL = minTTL
	g, err := b.Acquire(b.t.Context(), req)
	require.NoError(b.t, err)
	require.Eventually(b.t, func() bool { return !b.look(name).locked() }, time.Minute, 100*time.Millisecond)
	return g
}

// T20: a lease has run out, and is broken then. Its holder's renewal does not bring it
// back after that.
func TestTrap_T20_BlobBreakOfWhatRanOut(t *testing.T) {
	t.Parallel()
	for _, immediate := range []bool{false, true} {
		for _, named := range []bool{false, true} {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				g := b.expires("n", "a")
				req := abstractions.BreakRequest{Name: "n", Immediate: immediate}
				if named {
					req.IfToken = g.Token
				}
				r, err := b.Break(t.Context(), req)
				require.NoError(t, err)
				require.Equal(t, abstractions.BreakResult{Token: g.Token}, r)
				requireLost(t, b.extend(g), abstractions.LostBroken)
				_, err = b.try("n", "a")
				require.ErrorIs(t, err, abstractions.ErrReleased)
				require.False(t, b.shows("n").Held)
				b.watch.count()
				_, err = b.Break(t.Context(), req)
				require.NoError(t, err)
				require.Equal(t, []verb{look}, b.watch.count(), "there is nothing to be written")
				require.Greater(t, b.take("n", "b").Token, g.Token)
			})
		}
	}
}

// Half a break, and then the lease runs out: the same.
func TestTrap_T20_BlobBreakOfWhatRanOutHalfBroken(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	req := wish("n", "a")
	req.TTL = minTTL
	g, err := b.Acquire(t.Context(), req)
	require.NoError(t, err)
	b.halfBreak("n", 0)
	require.Eventually(t, func() bool { return !b.look("n").locked() }, time.Minute, 100*time.Millisecond)
	_, err = b.Break(t.Context(), abstractions.BreakRequest{Name: "n", IfToken: g.Token})
	require.NoError(t, err)
	requireLost(t, b.extend(g), abstractions.LostBroken)
}

// A claim that was written just now and has no lease yet has not run out: a Break of
// whatever there is leaves it alone, and one that names its token does not.
func TestBlobBreakBesideAnAcquire(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{false, true} {
		b := newBed(t)
		operator, _ := b.process()
		b.watch.just(takeLease, func() {
			req := abstractions.BreakRequest{Name: "n"}
			if named {
				req.IfToken = b.shows("n").Token
			}
			_, err := operator.Break(t.Context(), req)
			require.NoError(t, err)
		})
		_, err := b.try("n", "a")
		b.watch.heals()
		if named {
			require.ErrorIs(t, err, abstractions.ErrReleased)
		} else {
			require.NoError(t, err)
		}
	}
}
