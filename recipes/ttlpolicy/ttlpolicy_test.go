package ttlpolicy

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// granted returns the TTL of a lease that is held for the given time.
func granted(t *testing.T, m *leasing.Manager, name string, held time.Duration) time.Duration {
	l, err := m.TryAcquire(t.Context(), name)
	require.NoError(t, err)
	ttl := l.TTL()
	time.Sleep(held)
	require.Equal(t, ttl, l.TTL(), "as long as it is held")
	require.NoError(t, l.Release(t.Context()))
	synctest.Wait()
	return ttl
}

func TestUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := 1.0
		m, _ := leasingtest.NewManager(t, leasing.Options{TTL: time.Minute, TTLPolicy: UnderLoad(func() float64 { return load }, 1, 5*time.Second)})
		require.Equal(t, time.Minute, granted(t, m, "a", 0))
		load = 1.1
		require.Equal(t, 5*time.Second, granted(t, m, "a", time.Hour))
		short, err := m.With(leasing.AcquireOptions{TTL: 2 * time.Second}).TryAcquire(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, short.TTL(), "nothing is made longer")
		require.NoError(t, short.Release(t.Context()))
	})
}

func TestPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		past := NewPast(PastOptions{Scope: func(name string) string { return name[:1] }, Floor: 3 * time.Second, Cap: time.Hour, Samples: 2})
		m, p := leasingtest.NewManager(t, leasing.Options{TTLPolicy: past.TTL})
		t.Cleanup(m.Subscribe(past.Observe))
		require.Equal(t, 30*time.Second, granted(t, m, "a1", 10*time.Second), "nothing is known yet")
		require.Equal(t, 20*time.Second, granted(t, m, "a2", 20*time.Second))
		require.Equal(t, 30*time.Second, granted(t, m, "a1", 40*time.Second))
		require.Equal(t, time.Minute, granted(t, m, "a3", 0), "of the last two")
		require.Equal(t, 30*time.Second, granted(t, m, "b1", time.Millisecond), "another kind")
		require.Equal(t, 3*time.Second, granted(t, m, "b1", 5*time.Hour), "the floor")
		require.Equal(t, time.Hour, granted(t, m, "b1", 0), "the cap")

		lost, err := m.TryAcquire(t.Context(), "c")
		require.NoError(t, err)
		time.Sleep(time.Minute)
		leasingtest.Lose(t, p, lost, leasing.LostGone)
		synctest.Wait()
		require.Equal(t, 30*time.Second, granted(t, m, "c", 0), "a loss teaches nothing")
		require.Empty(t, past.acquiredAt)
	})
}

// A Past remembers a bounded number of kinds, and forgets a claim whose end was dropped.
func TestPastForgets(t *testing.T) {
	past := NewPast(PastOptions{})
	observe := func(kind leasing.EventKind, n int) {
		past.Observe(leasing.Event{Kind: kind, Fingerprint: leasing.FingerprintOf(fmt.Sprint(n)), Name: fmt.Sprint(n), Time: time.Now()})
	}
	for n := range 2 * maxScopes {
		observe(leasing.EventAcquired, n)
		observe(leasing.EventReleased, n)
	}
	require.Len(t, past.scopes, maxScopes)
	observe(leasing.EventAcquired, 0)
	observe(leasing.EventDropped, 0)
	observe(leasing.EventReleased, 0)
	require.Len(t, past.scopes["0"], 1)
	require.Empty(t, past.acquiredAt)

	past.scopes["0"] = []time.Duration{leasing.Infinite, leasing.Infinite}
	require.Equal(t, maxTTL, past.TTL(leasing.TTLRequest{Name: "0", TTL: time.Second}))
}
