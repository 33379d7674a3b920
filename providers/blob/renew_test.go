package bloblease

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// A renewal that replaces the metadata is repeated after each fault. It is no loss, and
// the record then has the metadata, under the same token.
func TestTrap_T15_BlobRenewalWithMetadataIsRepeated(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bed, name string, f fault, strike func() func() bool) bool {
		g := b.take(name, abstractions.NewID())
		req := renewal(g)
		req.Metadata = map[string]string{"step": "2"}
		b.watch.count()
		hit := strike()
		_, err := b.Renew(t.Context(), req)
		b.watch.heals()
		struck := hit()
		if struck {
			require.Truef(t, f.meansAfter(b.watch)(err), "%v", err)
		} else {
			require.NoError(t, err)
		}
		again, err := b.Renew(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, g.Token, again.Token)
		require.Equal(t, req.Metadata, b.shows(name).Metadata)
		req = renewal(again)
		req.Metadata = map[string]string{}
		_, err = b.Renew(t.Context(), req)
		require.NoError(t, err)
		require.Empty(t, b.shows(name).Metadata, "an empty map clears it")
		require.NoError(t, b.extend(again), "a state from before that")
		require.Empty(t, b.shows(name).Metadata)
		return struck
	})
}

// The record has the author and the reason of the break until the lease has ended, and
// no longer.
func TestBlobBreakSaysWhoAndWhy(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.take("n", "a")
	_, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n", Actor: "ops", Reason: "host is gone"})
	require.NoError(t, err)
	_, err = b.Break(t.Context(), abstractions.BreakRequest{Name: "n", Actor: "other", Reason: "again"})
	require.NoError(t, err)
	var lost *abstractions.LostError
	require.ErrorAs(t, b.extend(g), &lost)
	require.Equal(t, abstractions.LostError{Reason: abstractions.LostBroken, BrokenBy: "ops", BreakReason: "host is gone"}, *lost)
	shown := b.shows("n")
	require.Equal(t, []string{"ops", "host is gone"}, []string{shown.BrokenBy, shown.BreakReason})
	require.NoError(t, b.Release(t.Context(), endOf(g)))
	b.take("n", "b")
	require.Empty(t, b.shows("n").BrokenBy+b.shows("n").BreakReason)
	requireLost(t, b.extend(g), abstractions.LostBroken)
}

// T84: a claim is adopted by its name, ID and token, and not with another token.
func TestTrap_T84_BlobAdoptedClaim(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.take("n", "a")
	other, _ := b.process()
	for wrong, reason := range map[int64]abstractions.LostReason{g.Token - 1: abstractions.LostTaken, g.Token + 1: abstractions.LostGone} {
		for _, state := range []any{nil, g.State} {
			req := renewal(g)
			req.Token, req.State = wrong, state
			_, err := other.Renew(t.Context(), req)
			requireLost(t, err, reason)
		}
	}
	req := renewal(g)
	req.State = nil
	adopted, err := other.Renew(t.Context(), req)
	require.NoError(t, err)
	require.NoError(t, b.extend(g), "who had it before may renew it as well")
	end := endOf(adopted)
	end.State = nil
	require.NoError(t, other.Release(t.Context(), end))
	require.False(t, b.shows("n").Held)
	requireLost(t, b.extend(g), abstractions.LostGone)
}

// Half a Break stops every renewal of the holder: the record has another ETag.
func TestTrap_T16_BlobHalfABreakStopsRenewalsOfAFiniteLease(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.take("n", "a")
	b.breaksHalfWay("n", 0)
	requireLost(t, b.extend(g), abstractions.LostBroken)
	require.True(t, b.shows("n").Breaking)
}

// T27: a renewal that wrote, and whose next request is refused, was applied in part.
func TestTrap_T27_BlobRenewalThatWroteWasAppliedInPart(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.take("n", "a")
	req := renewal(g)
	req.Metadata = map[string]string{"k": "2"}
	b.watch.answers(takeLease, http.StatusServiceUnavailable, "x-ms-error-code", "ServerBusy")
	_, err := b.Renew(t.Context(), req)
	requireNoPromise(t, err, "renew")
	b.watch.heals()
	require.Equal(t, req.Metadata, b.shows("n").Metadata)
	require.NoError(t, b.extend(g))
}

// T15: a renewal for a longer TTL has written only the record. The next renewal does
// not trust the record's duration for the lease: it sets the duration.
func TestTrap_T15_BlobHalfAChangeOfTheDurationIsFinished(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	req := wish("n", "a")
	req.TTL = minTTL
	g, err := b.Acquire(t.Context(), req)
	require.NoError(t, err)
	longer := renewal(g)
	longer.TTL = maxTTL
	b.watch.answers(takeLease, http.StatusInternalServerError)
	_, err = b.Renew(t.Context(), longer)
	require.True(t, isUnknown(err), "%v", err)
	b.watch.heals()
	require.Equal(t, seconds(maxTTL), b.look("n").seconds)
	b.watch.count()
	_, err = b.Renew(t.Context(), longer)
	require.NoError(t, err)
	require.Equal(t, []verb{write, look, takeLease}, b.watch.count())
}

// T16: the reply to a renewal that made a lease infinite is lost, and the next
// renewal requests a finite lease: the lease becomes finite, and does not outlive
// its holder for ever.
func TestTrap_T16_BlobInfiniteLeaseThatNobodyKnowsOfGetsAnEnd(t *testing.T) {
	t.Parallel()
	for _, halfway := range []bool{false, true} {
		b := newBed(t)
		req := wish("n", "a")
		req.TTL = minTTL
		g, err := b.Acquire(t.Context(), req)
		require.NoError(t, err)
		b.watch.set(nil, func(v verb, answer *http.Response) (*http.Response, error) {
			if v == takeLease {
				_ = answer.Body.Close()
				return nil, io.ErrUnexpectedEOF
			}
			return answer, nil
		})
		infiniteLease := renewal(g)
		infiniteLease.TTL = abstractions.Infinite
		_, err = b.Renew(t.Context(), infiniteLease)
		require.True(t, isUnknown(err), "%v", err)
		b.watch.heals()
		require.True(t, b.look("n").infinite, "it was applied")
		if halfway { // the record is finite, and the lease is still infinite
			b.watch.answers(takeLease, http.StatusInternalServerError)
			finite := renewal(g)
			finite.TTL = 20 * time.Second
			_, err = b.Renew(t.Context(), finite)
			require.True(t, isUnknown(err), "%v", err)
			b.watch.heals()
			require.True(t, b.look("n").infinite)
		}
		g, err = b.Renew(t.Context(), renewal(g))
		require.NoError(t, err)
		require.False(t, b.look("n").infinite)
		b.watch.count()
		require.NoError(t, b.extend(g))
		require.Equal(t, []verb{renewLease}, b.watch.count(), "one request from then on")
	}
}
