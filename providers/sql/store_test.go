package sqllease

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

func TestCallsReturnServerTimeAndExpiry(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, store := bounded(t), open().Store()
		request := claimOf("jobs/daily", 30*time.Second)
		request.Metadata = map[string]string{"host": "a<b>\u2028", "empty": ""}

		claim, err := store.Acquire(ctx, request)
		require.NoError(t, err)
		exactly(t, 30*time.Second, claim)
		require.Equal(t, claim.ServerTime.UnixMicro(), claim.Token)

		record, err := store.Inspect(ctx, abstractions.InspectRequest{Name: request.Name})
		require.NoError(t, err)
		require.True(t, record.Held)
		require.Equal(t, request.Metadata, record.Metadata)
		require.Equal(t, request.Owner, record.Owner)
		require.Equal(t, 30*time.Second, record.TTL)
		require.WithinDuration(t, claim.ServerTime, record.AcquiredAt, time.Microsecond)
		require.WithinDuration(t, claim.ExpiresAt, record.ExpiresAt, time.Millisecond)

		again, err := store.Acquire(ctx, request)
		require.NoError(t, err)
		require.Equal(t, claim.Token, again.Token)
		require.True(t, again.ExpiresAt.After(claim.ExpiresAt))

		_, err = store.Acquire(ctx, claimOf(request.Name, time.Second))
		var held *abstractions.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, request.ID, held.Holder.ID)

		renewal := renewalOf(claim)
		renewal.TTL = time.Minute
		renewed, err := store.Renew(ctx, renewal)
		require.NoError(t, err)
		exactly(t, time.Minute, renewed)
		require.Equal(t, claim.Token, renewed.Token)

		renewal.TTL = abstractions.Infinite
		renewed, err = store.Renew(ctx, renewal)
		require.NoError(t, err)
		require.True(t, renewed.ExpiresAt.IsZero())

		released, err := store.Release(ctx, releaseOf(claim))
		require.NoError(t, err)
		require.True(t, released.WasHeld)
		require.False(t, released.ServerTime.Before(renewed.ServerTime))
		released, err = store.Release(ctx, releaseOf(claim))
		require.NoError(t, err)
		require.False(t, released.WasHeld)

		_, err = store.Acquire(ctx, request)
		require.ErrorIs(t, err, abstractions.ErrReleased)
		_, err = store.Renew(ctx, renewalOf(claim))
		lostBecause(t, err, abstractions.LostGone)

		next, err := store.Acquire(ctx, claimOf(request.Name, time.Second))
		require.NoError(t, err)
		require.Greater(t, next.Token, claim.Token)
	})
}

// exactly checks that the claim lasts its TTL: not less, and by no more than
// the databases' unit.
func exactly(t testing.TB, ttl time.Duration, claim Claim) {
	t.Helper()
	lasts := claim.ExpiresAt.Sub(claim.ServerTime)
	require.GreaterOrEqual(t, lasts, ttl)
	require.Less(t, lasts, ttl+time.Microsecond)
}
