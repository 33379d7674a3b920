package bloblease

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// halfBreak is a Break whose second request never arrives.
func (b *bed) halfBreak(name string, grace time.Duration) {
	b.t.Helper()
	operator, w := b.process()
	w.set(func(v verb, _ *http.Request) (*http.Response, error) {
		if v == breakIt {
			return nil, io.ErrUnexpectedEOF
		}
		return nil, nil
	}, nil)
	_, err := operator.Break(b.t.Context(), abstractions.BreakRequest{Name: name, Grace: grace})
	require.True(b.t, isUnknown(err), "%v", err)
	require.Equal(b.t, lease.StateTypeLeased, b.look(name).lease)
}

func (b *bed) takeEndless(name, id string) abstractions.Grant {
	b.t.Helper()
	req := wish(name, id)
	req.TTL = abstractions.Infinite
	g, err := b.Acquire(b.t.Context(), req)
	require.NoError(b.t, err)
	return g
}

// T16: an operator's process dies between the two requests of a Break. The lease has
// no end of its own, so whoever comes next ends it, after the grace that was given.
func TestTrap_T16_BlobHalfABreakIsFinishedByWhoComesNext(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"renewal", "renewal without state", "acquire"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			g := b.takeEndless("n", "a")
			b.halfBreak("n", 2*time.Second)
			switch by {
			case "acquire":
				_, err := b.try("n", "b")
				require.ErrorIs(t, err, abstractions.ErrHeld)
			case "renewal without state":
				req := renewal(g)
				req.State = nil
				_, err := b.Renew(t.Context(), req)
				requireLost(t, err, abstractions.LostBroken)
			case "renewal":
				requireLost(t, b.extend(g), abstractions.LostBroken)
			}
			require.Equal(t, lease.StateTypeBreaking, b.look("n").lease)
			require.True(t, b.shows("n").Breaking)
			requireLost(t, b.extend(g), abstractions.LostBroken)
			var next abstractions.Grant
			began := b.look("n").now
			require.Eventually(t, func() bool {
				var err error
				next, err = b.try("n", "b")
				return err == nil
			}, 30*time.Second, 100*time.Millisecond)
			require.Greater(t, next.Token, g.Token)
			require.Less(t, b.look("n").now.Sub(began), 10*time.Second, "by the grace, not by a default")
			_, err := b.try("n", "a")
			require.Error(t, err)
		})
	}
}

// The grace is the operator's: it is kept for whoever finishes the break, and a finite
// lease has the rest of its time.
func TestTrap_T16_BlobHalfABreakKeepsItsGrace(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.takeEndless("infinite", "a")
	b.halfBreak("infinite", 30*time.Second)
	_, err := b.try("infinite", "b")
	require.ErrorIs(t, err, abstractions.ErrHeld)
	r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "infinite", Grace: time.Minute})
	require.NoError(t, err)
	require.Greater(t, r.Remaining, 10*time.Second)
	require.LessOrEqual(t, r.Remaining, 30*time.Second)

	b.take("finite", "a")
	b.halfBreak("finite", 0)
	_, err = b.try("finite", "b")
	require.ErrorIs(t, err, abstractions.ErrHeld)
	require.Equal(t, lease.StateTypeBreaking, b.look("finite").lease)
	r, err = b.Break(t.Context(), abstractions.BreakRequest{Name: "finite"})
	require.NoError(t, err)
	require.Greater(t, r.Remaining, 30*time.Second)
}

// The finishing fails: the holder hears nothing that is not certain to be finished,
// and does it with its next renewal.
func TestTrap_T16_BlobHalfABreakThatIsNotFinishedYet(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.takeEndless("n", "a")
	b.halfBreak("n", time.Second)
	b.watch.answers(breakIt, http.StatusInternalServerError)
	err := b.extend(g)
	require.True(t, isUnknown(err), "%v", err)
	require.NotErrorIs(t, err, abstractions.ErrLost)
	b.watch.heals()
	requireLost(t, b.extend(g), abstractions.LostBroken)
	require.NotEqual(t, lease.StateTypeLeased, b.look("n").lease)
}

// Under the core: its renewal loop hears of the loss, and the name is free again.
func TestTrap_T16_BlobHalfABreakUnderAManager(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	m := managerOf(t, b.Provider, leasing.Options{})
	held, err := m.TryAcquire(t.Context(), "n", &abstractions.AcquireOptions{TTL: abstractions.Infinite, RenewCadence: 500 * time.Millisecond})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return b.look("n").infinite && held.Renewals() > 1 }, 30*time.Second, 100*time.Millisecond)
	b.halfBreak("n", time.Second)
	select {
	case <-held.Done():
	case <-time.After(30 * time.Second):
		require.Fail(t, "no loss")
	}
	requireLost(t, held.Err(), abstractions.LostBroken)
	require.Eventually(t, func() bool {
		_, err := b.try("n", "b")
		return err == nil
	}, 30*time.Second, 100*time.Millisecond)
}

// A break that comes while an infinite lease gets an end: the record says so
// already, and the service's lease is still infinite. It is not over at once.
func TestTrap_T63_BlobBreakOfAnInfiniteLeaseThatIsAboutToEnd(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.takeEndless("n", "a")
	g.TTL = minTTL
	b.watch.answers(takeLease, http.StatusInternalServerError)
	require.True(t, isUnknown(b.extend(g)))
	b.watch.heals()
	require.True(t, b.look("n").infinite)
	r, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	require.Greater(t, r.Remaining, 30*time.Second)
}
