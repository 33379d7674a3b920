package bloblease

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// After each fault, a repeated renewal that replaces the metadata succeeds, and the record
// then has the new metadata and the same token.
func TestTrap_T15_BlobRenewalWithMetadataIsRepeated(t *testing.T) {
	t.Parallel()
	eachFault(t, func(t *testing.T, b *bed, name string, f fault, strike func() func() bool) bool {
		g := b.acquire(name, abstractions.NewID())
		req := renewRequest(g)
		req.Metadata = map[string]string{"step": "2"}
		b.recorder.count()
		hit := strike()
		_, err := b.Renew(t.Context(), req)
		b.recorder.reset()
		struck := hit()
		if struck {
			require.Truef(t, f.meansAfter(b.recorder)(err), "%v", err)
		} else {
			require.NoError(t, err)
		}
		again, err := b.Renew(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, g.Token, again.Token)
		require.Equal(t, req.Metadata, b.inspect(name).Metadata)
		req = renewRequest(again)
		req.Metadata = map[string]string{}
		_, err = b.Renew(t.Context(), req)
		require.NoError(t, err)
		require.Empty(t, b.inspect(name).Metadata, "an empty map clears it")
		require.NoError(t, b.renew(again), "a state from before that")
		require.Empty(t, b.inspect(name).Metadata)
		return struck
	})
}

// The record keeps the actor and the reason of the break until the lease has ended, and
// no longer.
func TestBlobBreakSaysWhoAndWhy(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.acquire("n", "a")
	_, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n", Actor: "ops", Reason: "host is gone"})
	require.NoError(t, err)
	_, err = b.Break(t.Context(), abstractions.BreakRequest{Name: "n", Actor: "other", Reason: "again"})
	require.NoError(t, err)
	var lost *abstractions.LostError
	require.ErrorAs(t, b.renew(g), &lost)
	require.Equal(t, abstractions.LostError{Reason: abstractions.LostBroken, BrokenBy: "ops", BreakReason: "host is gone"}, *lost)
	shown := b.inspect("n")
	require.Equal(t, []string{"ops", "host is gone"}, []string{shown.BrokenBy, shown.BreakReason})
	require.NoError(t, b.Release(t.Context(), releaseRequest(g)))
	b.acquire("n", "b")
	require.Empty(t, b.inspect("n").BrokenBy+b.inspect("n").BreakReason)
	requireLost(t, b.renew(g), abstractions.LostBroken)
}

// T84: a claim can be adopted with its name, ID and token, but not with another token.
func TestTrap_T84_BlobAdoptedClaim(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.acquire("n", "a")
	other, _ := b.process()
	for wrong, reason := range map[int64]abstractions.LostReason{g.Token - 1: abstractions.LostTaken, g.Token + 1: abstractions.LostGone} {
		for _, state := range []any{nil, g.State} {
			req := renewRequest(g)
			req.Token, req.State = wrong, state
			_, err := other.Renew(t.Context(), req)
			requireLost(t, err, reason)
		}
	}
	req := renewRequest(g)
	req.State = nil
	adopted, err := other.Renew(t.Context(), req)
	require.NoError(t, err)
	require.NoError(t, b.renew(g), "who had it before may renew it as well")
	end := releaseRequest(adopted)
	end.State = nil
	require.NoError(t, other.Release(t.Context(), end))
	require.False(t, b.inspect("n").Held)
	requireLost(t, b.renew(g), abstractions.LostGone)
}

// A Break that stopped halfway still prevents every renewal of the holder, because the
// record's ETag has changed.
func TestTrap_T16_BlobHalfABreakStopsRenewalsOfAFiniteLease(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.acquire("n", "a")
	b.breakHalfWay("n", 0)
	requireLost(t, b.renew(g), abstractions.LostBroken)
	require.True(t, b.inspect("n").Breaking)
}

// T27: a renewal counts as applied in part if it wrote the record and its next request was refused.
func TestTrap_T27_BlobRenewalThatWroteWasAppliedInPart(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.acquire("n", "a")
	req := renewRequest(g)
	req.Metadata = map[string]string{"k": "2"}
	b.recorder.answerWith(verbAcquire, http.StatusServiceUnavailable, "x-ms-error-code", "ServerBusy")
	_, err := b.Renew(t.Context(), req)
	requireNoPromise(t, err, "renew")
	b.recorder.reset()
	require.Equal(t, req.Metadata, b.inspect("n").Metadata)
	require.NoError(t, b.renew(g))
}

// T15: a renewal for a longer TTL has written only the record. The next renewal does
// not assume that the lease has the record's duration, and sets that duration.
func TestTrap_T15_BlobHalfAChangeOfTheDurationIsFinished(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	req := acquireRequest("n", "a")
	req.TTL = minTTL
	g, err := b.Acquire(t.Context(), req)
	require.NoError(t, err)
	longer := renewRequest(g)
	longer.TTL = maxTTL
	b.recorder.answerWith(verbAcquire, http.StatusInternalServerError)
	_, err = b.Renew(t.Context(), longer)
	require.True(t, isUnknown(err), "%v", err)
	b.recorder.reset()
	require.Equal(t, seconds(maxTTL), b.view("n").seconds)
	b.recorder.count()
	_, err = b.Renew(t.Context(), longer)
	require.NoError(t, err)
	require.Equal(t, []verb{verbWrite, verbRead, verbAcquire}, b.recorder.count())
}

// T16: the reply to a renewal that made a lease infinite is lost, and the next
// renewal requests a finite lease: the lease becomes finite, so it ends even if
// its holder dies.
func TestTrap_T16_BlobInfiniteLeaseThatNobodyKnowsOfGetsAnEnd(t *testing.T) {
	t.Parallel()
	for _, halfway := range []bool{false, true} {
		b := newBed(t)
		req := acquireRequest("n", "a")
		req.TTL = minTTL
		g, err := b.Acquire(t.Context(), req)
		require.NoError(t, err)
		b.recorder.set(nil, func(v verb, answer *http.Response) (*http.Response, error) {
			if v == verbAcquire {
				_ = answer.Body.Close()
				return nil, io.ErrUnexpectedEOF
			}
			return answer, nil
		})
		infiniteLease := renewRequest(g)
		infiniteLease.TTL = abstractions.Infinite
		_, err = b.Renew(t.Context(), infiniteLease)
		require.True(t, isUnknown(err), "%v", err)
		b.recorder.reset()
		require.True(t, b.view("n").infinite, "it was applied")
		if halfway { // the record is finite, and the lease is still infinite
			b.recorder.answerWith(verbAcquire, http.StatusInternalServerError)
			finite := renewRequest(g)
			finite.TTL = 20 * time.Second
			_, err = b.Renew(t.Context(), finite)
			require.True(t, isUnknown(err), "%v", err)
			b.recorder.reset()
			require.True(t, b.view("n").infinite)
		}
		g, err = b.Renew(t.Context(), renewRequest(g))
		require.NoError(t, err)
		require.False(t, b.view("n").infinite)
		b.recorder.count()
		require.NoError(t, b.renew(g))
		require.Equal(t, []verb{verbRenew}, b.recorder.count(), "one request from then on")
	}
}
