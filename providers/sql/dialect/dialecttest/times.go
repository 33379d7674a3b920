package dialecttest

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/stretchr/testify/require"
)

func grantsHaveServerTimeAndExpiry(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open()
		request := ClaimOf("jobs/daily", 30*time.Second)
		request.Metadata = map[string]string{"host": "a<b>\u2028", "empty": ""}

		claim, err := p.Acquire(ctx, request)
		require.NoError(t, err)
		Exactly(t, 30*time.Second, claim)
		serverTime, expiresAt, ok := sqllease.Times(claim)
		require.True(t, ok)
		require.Equal(t, serverTime.UnixMicro(), claim.Token)

		record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: request.Name})
		require.NoError(t, err)
		require.True(t, record.Held)
		require.Equal(t, request.Metadata, record.Metadata)
		require.Equal(t, request.Owner, record.Owner)
		require.Equal(t, 30*time.Second, record.TTL)
		require.WithinDuration(t, serverTime, record.AcquiredAt, time.Microsecond)
		require.WithinDuration(t, expiresAt, record.ExpiresAt, time.Millisecond)

		again, err := p.Acquire(ctx, request)
		require.NoError(t, err)
		require.Equal(t, claim.Token, again.Token)
		_, later, _ := sqllease.Times(again)
		require.True(t, later.After(expiresAt))

		_, err = p.Acquire(ctx, ClaimOf(request.Name, time.Second))
		var held *abstractions.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, abstractions.FingerprintOf(request.ID), held.Holder.Fingerprint)

		renewal := RenewalOf(claim)
		renewal.TTL = time.Minute
		renewed, err := p.Renew(ctx, renewal)
		require.NoError(t, err)
		Exactly(t, time.Minute, renewed)
		require.Equal(t, claim.Token, renewed.Token)

		renewal.TTL = abstractions.Infinite
		renewed, err = p.Renew(ctx, renewal)
		require.NoError(t, err)
		_, never, ok := sqllease.Times(renewed)
		require.True(t, ok && never.IsZero())
		_, _, ok = sqllease.Times(abstractions.Grant{})
		require.False(t, ok)

		require.NoError(t, p.Release(ctx, ReleaseOf(claim)))
		require.NoError(t, p.Release(ctx, ReleaseOf(claim)))

		_, err = p.Acquire(ctx, request)
		require.ErrorIs(t, err, abstractions.ErrReleased)
		_, err = p.Renew(ctx, RenewalOf(claim))
		LostBecause(t, err, abstractions.LostGone)

		next, err := p.Acquire(ctx, ClaimOf(request.Name, time.Second))
		require.NoError(t, err)
		require.Greater(t, next.Token, claim.Token)
	})
}

// Exactly checks that the claim lasts for its TTL, rounded up to a microsecond at most.
func Exactly(t testing.TB, ttl time.Duration, claim abstractions.Grant) {
	t.Helper()
	serverTime, expiresAt, ok := sqllease.Times(claim)
	require.True(t, ok)
	lasts := expiresAt.Sub(serverTime)
	require.GreaterOrEqual(t, lasts, ttl)
	require.Less(t, lasts, ttl+time.Microsecond)
}

// ServerTime returns the database's clock at a grant.
func ServerTime(t testing.TB, grant abstractions.Grant) time.Time {
	t.Helper()
	now, _, ok := sqllease.Times(grant)
	require.True(t, ok)
	return now
}

// Expiry returns the end of a grant, by the database's clock.
func Expiry(t testing.TB, grant abstractions.Grant) time.Time {
	t.Helper()
	_, end, ok := sqllease.Times(grant)
	require.True(t, ok)
	return end
}
