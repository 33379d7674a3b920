package sqllease

import (
	"context"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// listed are the claims that are listed as waiting for a name.
func listed(ctx context.Context, t testing.TB, p *Provider, name string) (claims []abstractions.Fingerprint) {
	t.Helper()
	all, err := p.Waiters(ctx, abstractions.WaitersRequest{Name: name})
	require.NoError(t, err)
	for _, w := range all {
		claims = append(claims, w.Fingerprint)
	}
	return claims
}

func fingerprints(ids ...string) (claims []abstractions.Fingerprint) {
	for _, id := range ids {
		claims = append(claims, abstractions.FingerprintOf(id))
	}
	return claims
}

// Those of a process that has died are not listed any more, although they keep their places until it is their turn.
func TestTheDeadAreNotListed(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p, dead := bounded(t), open(), open()
		take(ctx, t, p, "n", "holder")
		join(ctx, t, dead, "n", "dead1")
		join(ctx, t, p, "n", "alive")
		join(ctx, t, dead, "n", "dead2")
		require.Equal(t, fingerprints("dead1", "alive", "dead2"), listed(ctx, t, p, "n"))
		require.NoError(t, dead.Close()) // its registrations go on, as if it had been killed
		require.Eventually(t, func() bool { return assert.ObjectsAreEqual(fingerprints("alive"), listed(ctx, t, p, "n")) }, 20*time.Second, time.Millisecond)
	})
}

// A hung waiter that nobody follows is not listed once its reservation has ended.
func TestTheLastThatHangsIsNotListed(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open()
		holder := take(ctx, t, p, "n", "holder")
		join(ctx, t, p, "n", "hung")
		require.NoError(t, p.Release(ctx, releaseOf(holder)))
		require.Eventually(t, func() bool { return len(listed(ctx, t, p, "n")) == 0 }, 20*time.Second, time.Millisecond)
	})
}

// What PostgreSQL knows of those who have waited is forgotten, now and then and with the name; not of those who still wait.
func TestThoseWhoHaveWaitedAreForgotten(t *testing.T) {
	ctx, open := bounded(t), databases["postgres"](t)
	p := open("retention", "1h")
	b := p.driver.backend.(*postgres)
	b.random = func(int) int { return 1 }
	holder := take(ctx, t, p, "n", "holder")
	for range 20 {
		id := abstractions.NewID()
		join(ctx, t, p, "n", id)
		require.NoError(t, p.Release(ctx, releaseOf(holder)))
		holder = take(ctx, t, p, "n", id)
	}
	join(ctx, t, p, "n", "patient")
	require.Equal(t, 21, countRows(t, p, "{waiters}"))
	execute(ctx, t, b, "UPDATE {waiters} SET since = since - interval '1 hour'")
	b.random = func(int) int { return 0 }
	join(ctx, t, p, "n", "new")
	require.Equal(t, 2, countRows(t, p, "{waiters}"))
	require.Equal(t, fingerprints("patient", "new"), listed(ctx, t, p, "n"))

	for _, next := range []string{"patient", "new"} {
		require.NoError(t, p.Release(ctx, releaseOf(holder)))
		holder = take(ctx, t, p, "n", next)
	}
	require.NoError(t, p.Release(ctx, releaseOf(holder)))
	idle(t, p, 2*time.Hour)
	_, err := p.Sweep(ctx)
	require.NoError(t, err)
	require.Zero(t, countRows(t, p, "{lease} WHERE name <> ''")+countRows(t, p, "{waiters}"))
}
