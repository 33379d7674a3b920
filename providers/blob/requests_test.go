package bloblease

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/stretchr/testify/require"
)

// The calls send as many requests as docs/providers/blob.md says.
func TestBlobRequests(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	sends := func(what string, want ...verb) {
		t.Helper()
		require.Equal(t, want, b.recorder.count(), what)
	}
	require.Empty(t, b.recorder.count(), "nothing is sent by Open")

	first := b.acquire("n", "a")
	sends("first time", verbRead, verbRead, verbCreate, verbAcquire)
	_, err := b.try("n", "b")
	require.ErrorIs(t, err, abstractions.ErrHeld)
	sends("held", verbRead)
	require.NoError(t, b.renew(first))
	sends("renew", verbRenew)
	_, err = b.try("n", "a")
	require.NoError(t, err)
	sends("again, after a lost reply", verbRead, verbAcquire)
	b.inspect("n")
	sends("inspect", verbRead)
	require.NoError(t, b.Ping(ctx))
	sends("ping", verbRead)
	require.NoError(t, b.Release(ctx, releaseRequest(first)))
	sends("release", verbWrite, verbRelease)
	require.NoError(t, b.Release(ctx, releaseRequest(first)))
	sends("release again, with a state that is old", verbWrite, verbRead)
	b.release("n", "a")
	sends("release again, by ID", verbRead)

	second := b.acquire("n", "b")
	sends("free, seen before", verbRead, verbWrite, verbAcquire)
	b.release("n", "never")
	sends("release of an ID that never held the name", verbRead, verbWrite)
	second, err = b.Renew(ctx, renewRequest(second))
	require.NoError(t, err)
	sends("the next renewal finds another record", verbRenew, verbRead, verbAcquire)
	require.NoError(t, b.renew(second))
	sends("and the one after that does not", verbRenew)
	second.TTL = 30 * time.Second
	require.NoError(t, b.renew(second))
	sends("a shorter TTL", verbWrite, verbAcquire)
	b.release("n", "b")
	sends("clean-up of an attempt that has landed", verbRead, verbWrite, verbRelease)
	b.release("m", "never")
	sends("clean-up of an attempt that has not", verbRead, verbCreate)

	third := b.acquire("n", "c")
	b.recorder.count()
	_, err = b.Break(ctx, abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	sends("break", verbRead, verbWrite, verbBreak)
	require.ErrorIs(t, b.renew(third), abstractions.ErrLost)
	sends("renewal that finds a loss", verbRenew, verbRead)
	_, err = b.Break(ctx, abstractions.BreakRequest{Name: "n", Immediate: true})
	require.NoError(t, err)
	sends("break at once", verbRead, verbWrite, verbRelease)
	_, err = b.List(ctx, abstractions.ListRequest{})
	require.NoError(t, err)
	sends("list", verbOther)
}

func TestBlobRequestsOfOtherTTLs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	req := acquireRequest("n", "a")
	req.TTL = minTTL
	g, err := b.Acquire(ctx, req)
	require.NoError(t, err)
	b.recorder.count()
	for _, step := range []struct {
		ttl    time.Duration
		native int32
		sent   []verb
	}{
		{20 * time.Second, 20, []verb{verbWrite, verbAcquire}},
		{20 * time.Second, 20, []verb{verbRenew}},
		{15 * time.Second, 15, []verb{verbWrite, verbAcquire}},
		{abstractions.Infinite, infinite, []verb{verbWrite, verbAcquire}},
		{abstractions.Infinite, infinite, []verb{verbRenew}},
		{15 * time.Second, 15, []verb{verbWrite, verbAcquire}},
		{15 * time.Second, 15, []verb{verbRenew}},
	} {
		g.TTL = step.ttl
		g, err = b.Renew(ctx, renewRequest(g))
		require.NoError(t, err)
		require.Equal(t, step.ttl, g.TTL)
		require.Equal(t, step.sent, b.recorder.count(), "%v", step)
		require.Equal(t, step.native, b.view("n").seconds)
		b.recorder.count()
	}
}

func TestBlobRequestsWhereTheContainerIsMade(t *testing.T) {
	t.Parallel()
	b := bedOf(t, Options{ConnectionString: servertest.Require(t, azuriteVariable), Container: newContainer(), Create: true})
	b.release("n", "x")
	require.Equal(t, []verb{verbRead}, b.recorder.count(), "a release makes none")
	require.False(t, b.inspect("n").Held)
	require.NoError(t, b.Ping(t.Context()))
	page, err := b.List(t.Context(), abstractions.ListRequest{})
	require.NoError(t, err)
	require.Empty(t, page.Records)
	b.recorder.count()
	b.acquire("n", "a")
	require.Equal(t, []verb{verbRead, verbRead, verbOther, verbCreate, verbAcquire}, b.recorder.count())
}

// An acquire that is repeated after a renewal for a longer TTL does not shorten the
// lease.
func TestBlobLateCopyDoesNotShorten(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	req := acquireRequest("n", "a")
	req.TTL = minTTL
	g, err := b.Acquire(t.Context(), req)
	require.NoError(t, err)
	for _, ttl := range []time.Duration{maxTTL, abstractions.Infinite} {
		g.TTL = ttl
		g, err = b.Renew(t.Context(), renewRequest(g))
		require.NoError(t, err)
		again, err := b.Acquire(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, g.Token, again.Token)
		require.Equal(t, minTTL, again.TTL)
		require.Equal(t, seconds(ttl), b.view("n").seconds)
		properties, err := b.admin.NewBlobClient(b.blobName("n")).GetProperties(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, ttl == abstractions.Infinite, *properties.LeaseDuration == lease.DurationTypeInfinite)
	}
}

// A renewal with a state that predates a change of the TTL does not report a finite
// lease as infinite, or a short lease as long.
func TestTrap_T15_BlobOldStateTrustsNoLongerLease(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	req := acquireRequest("n", "a")
	req.TTL = abstractions.Infinite
	infiniteLease, err := b.Acquire(t.Context(), req)
	require.NoError(t, err)
	finite := infiniteLease
	finite.TTL = minTTL
	finite, err = b.Renew(t.Context(), renewRequest(finite)) // its reply is lost
	require.NoError(t, err)
	require.EqualValues(t, 15, b.view("n").seconds)
	require.NoError(t, b.renew(infiniteLease), "by the state before")
	properties, err := b.admin.NewBlobClient(b.blobName("n")).GetProperties(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, lease.DurationTypeInfinite, *properties.LeaseDuration, "it is granted as infinite, and is")
	require.NoError(t, b.renew(finite))
}
