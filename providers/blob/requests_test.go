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
		require.Equal(t, want, b.watch.count(), what)
	}
	require.Empty(t, b.watch.count(), "nothing is sent by Open")

	first := b.take("n", "a")
	sends("first time", look, look, create, takeLease)
	_, err := b.try("n", "b")
	require.ErrorIs(t, err, abstractions.ErrHeld)
	sends("held", look)
	require.NoError(t, b.extend(first))
	sends("renew", renewLease)
	_, err = b.try("n", "a")
	require.NoError(t, err)
	sends("again, after a lost reply", look, takeLease)
	b.shows("n")
	sends("inspect", look)
	require.NoError(t, b.Ping(ctx))
	sends("ping", look)
	require.NoError(t, b.Release(ctx, endOf(first)))
	sends("release", write, freeLease)
	require.NoError(t, b.Release(ctx, endOf(first)))
	sends("release again, with a state that is old", write, look)
	b.giveUp("n", "a")
	sends("release again, by ID", look)

	second := b.take("n", "b")
	sends("free, seen before", look, write, takeLease)
	b.giveUp("n", "never")
	sends("release of an ID that never held the name", look, write)
	second, err = b.Renew(ctx, renewal(second))
	require.NoError(t, err)
	sends("the next renewal finds another record", renewLease, look, takeLease)
	require.NoError(t, b.extend(second))
	sends("and the one after that does not", renewLease)
	second.TTL = 30 * time.Second
	require.NoError(t, b.extend(second))
	sends("a shorter TTL", write, takeLease)
	b.giveUp("n", "b")
	sends("clean-up of an attempt that has landed", look, write, freeLease)
	b.giveUp("m", "never")
	sends("clean-up of an attempt that has not", look, create)

	third := b.take("n", "c")
	b.watch.count()
	_, err = b.Break(ctx, abstractions.BreakRequest{Name: "n"})
	require.NoError(t, err)
	sends("break", look, write, breakIt)
	require.ErrorIs(t, b.extend(third), abstractions.ErrLost)
	sends("renewal that finds a loss", renewLease, look)
	_, err = b.Break(ctx, abstractions.BreakRequest{Name: "n", Immediate: true})
	require.NoError(t, err)
	sends("break at once", look, write, freeLease)
	_, err = b.List(ctx, abstractions.ListRequest{})
	require.NoError(t, err)
	sends("list", other)
}

func TestBlobRequestsOfOtherTTLs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	req := wish("n", "a")
	req.TTL = minTTL
	g, err := b.Acquire(ctx, req)
	require.NoError(t, err)
	b.watch.count()
	for _, step := range []struct {
		ttl    time.Duration
		native int32
		sent   []verb
	}{
		{20 * time.Second, 20, []verb{write, takeLease}},
		{20 * time.Second, 20, []verb{renewLease}},
		{15 * time.Second, 15, []verb{write, takeLease}},
		{abstractions.Infinite, infinite, []verb{write, takeLease}},
		{abstractions.Infinite, infinite, []verb{renewLease}},
		{15 * time.Second, 15, []verb{write, takeLease}},
		{15 * time.Second, 15, []verb{renewLease}},
	} {
		g.TTL = step.ttl
		g, err = b.Renew(ctx, renewal(g))
		require.NoError(t, err)
		require.Equal(t, step.ttl, g.TTL)
		require.Equal(t, step.sent, b.watch.count(), "%v", step)
		require.Equal(t, step.native, b.look("n").seconds)
		b.watch.count()
	}
}

func TestBlobRequestsWhereTheContainerIsMade(t *testing.T) {
	t.Parallel()
	b := bedOf(t, Options{ConnectionString: servertest.Require(t, azuriteVariable), Container: newContainer(), Create: true})
	b.giveUp("n", "x")
	require.Equal(t, []verb{look}, b.watch.count(), "a release makes none")
	require.False(t, b.shows("n").Held)
	require.NoError(t, b.Ping(t.Context()))
	page, err := b.List(t.Context(), abstractions.ListRequest{})
	require.NoError(t, err)
	require.Empty(t, page.Records)
	b.watch.count()
	b.take("n", "a")
	require.Equal(t, []verb{look, look, other, create, takeLease}, b.watch.count())
}

// An acquire that is repeated after a renewal for a longer TTL does not shorten the
// lease.
func TestBlobLateCopyDoesNotShorten(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	req := wish("n", "a")
	req.TTL = minTTL
	g, err := b.Acquire(t.Context(), req)
	require.NoError(t, err)
	for _, ttl := range []time.Duration{maxTTL, abstractions.Infinite} {
		g.TTL = ttl
		g, err = b.Renew(t.Context(), renewal(g))
		require.NoError(t, err)
		again, err := b.Acquire(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, g.Token, again.Token)
		require.Equal(t, minTTL, again.TTL)
		require.Equal(t, seconds(ttl), b.look("n").seconds)
		properties, err := b.admin.NewBlobClient(b.blobName("n")).GetProperties(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, ttl == abstractions.Infinite, *properties.LeaseDuration == lease.DurationTypeInfinite)
	}
}

// With a state from before a change of the TTL, a renewal does not report a finite
// lease as infinite, nor a short lease as long.
func TestTrap_T15_BlobOldStateTrustsNoLongerLease(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	req := wish("n", "a")
	req.TTL = abstractions.Infinite
	infiniteLease, err := b.Acquire(t.Context(), req)
	require.NoError(t, err)
	finite := infiniteLease
	finite.TTL = minTTL
	finite, err = b.Renew(t.Context(), renewal(finite)) // its reply is lost
	require.NoError(t, err)
	require.EqualValues(t, 15, b.look("n").seconds)
	require.NoError(t, b.extend(infiniteLease), "by the state before")
	properties, err := b.admin.NewBlobClient(b.blobName("n")).GetProperties(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, lease.DurationTypeInfinite, *properties.LeaseDuration, "it is granted as infinite, and is")
	require.NoError(t, b.extend(finite))
}
