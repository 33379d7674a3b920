package dialecttest

import (
	"context"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Listed returns the claims that are listed as waiting for a name.
func Listed(ctx context.Context, t testing.TB, p *sqllease.Provider, name string) (claims []abstractions.Fingerprint) {
	t.Helper()
	all, err := p.Waiters(ctx, abstractions.WaitersRequest{Name: name})
	require.NoError(t, err)
	for _, w := range all {
		claims = append(claims, w.Fingerprint)
	}
	return claims
}

// Fingerprints returns the fingerprints of claims.
func Fingerprints(ids ...string) (claims []abstractions.Fingerprint) {
	for _, id := range ids {
		claims = append(claims, abstractions.FingerprintOf(id))
	}
	return claims
}

// The waiters of a dead process are no longer listed, although they keep their places until their turns.
func theDeadAreNotListed(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p, dead := Bounded(t), open(), open()
		Take(ctx, t, p, "n", "holder")
		Join(ctx, t, dead, "n", "dead1")
		Join(ctx, t, p, "n", "alive")
		Join(ctx, t, dead, "n", "dead2")
		require.Equal(t, Fingerprints("dead1", "alive", "dead2"), Listed(ctx, t, p, "n"))
		require.NoError(t, dead.Close()) // its registrations remain, as if it had been killed
		require.Eventually(t, func() bool { return assert.ObjectsAreEqual(Fingerprints("alive"), Listed(ctx, t, p, "n")) }, 20*time.Second, time.Millisecond)
	})
}

// A hung waiter at the end of the queue is not listed once its reservation has ended.
func theLastThatHangsIsNotListed(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open()
		holder := Take(ctx, t, p, "n", "holder")
		Join(ctx, t, p, "n", "hung")
		require.NoError(t, p.Release(ctx, ReleaseOf(holder)))
		require.Eventually(t, func() bool { return len(Listed(ctx, t, p, "n")) == 0 }, 20*time.Second, time.Millisecond)
	})
}
