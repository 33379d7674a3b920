package fencing_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func newManager(t *testing.T) *leasing.Manager {
	t.Helper()
	manager, err := leasing.NewManager(memlease.New(memlease.Options{}), leasing.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, manager.Close(context.Background())) })
	return manager
}

func acquire(t *testing.T, manager *leasing.Manager) *leasing.Lease {
	t.Helper()
	lease, err := manager.TryAcquire(t.Context(), "reports/daily")
	require.NoError(t, err)
	return lease
}

func TestTrap_T22_ARenewedLeaseIsAdmittedWithTheTokenItHasShown(t *testing.T) {
	var gate fencing.Gate
	lease := acquire(t, newManager(t))
	shown := lease.Token()
	require.NoError(t, gate.Do(t.Context(), shown, noop))
	require.NoError(t, lease.Renew(t.Context()))
	require.NoError(t, gate.Do(t.Context(), lease.Token(), noop))
	require.NoError(t, gate.Do(t.Context(), shown, noop), "a request that was under way during the renewal")
	require.NoError(t, lease.Release(t.Context()))
}

// A former holder that asked the backend for "the token" would get its
// successor's, and be admitted.
func TestTrap_T23_AFormerHolderIsRefusedThoughTheNameIsHeld(t *testing.T) {
	var gate fencing.Gate
	manager := newManager(t)
	former := acquire(t, manager)
	_, err := manager.Break(t.Context(), "reports/daily", leasing.BreakOptions{Immediate: true})
	require.NoError(t, err)
	present := acquire(t, manager)
	require.NoError(t, gate.Do(t.Context(), present.Token(), noop))
	require.Equal(t, &fencing.StaleError{Token: former.Token(), Seen: present.Token()},
		gate.Do(t.Context(), former.Token(), noop))
	_ = former.Release(t.Context()) // fails, because the lease is lost
	require.NoError(t, present.Release(t.Context()))
}

// The tokens of a name rise through releases and breaks, so a resource admits the next holder.
func TestTrap_T21_TheNextHolderIsAdmitted(t *testing.T) {
	var gate fencing.Gate
	manager := newManager(t)
	for range 3 {
		lease := acquire(t, manager)
		require.Greater(t, lease.Token(), gate.Seen())
		require.NoError(t, gate.Do(t.Context(), lease.Token(), noop))
		require.NoError(t, lease.Release(t.Context()))
		_, err := manager.Break(t.Context(), "reports/daily", leasing.BreakOptions{Immediate: true})
		require.NoError(t, err)
	}
}
