package ctrllease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// candidate runs client-go's loop, as in controller-runtime. When the candidate stops leading,
// ended receives the time.
func candidate(ctx context.Context, t *testing.T, lock resourcelock.Interface, release bool) (leads func() bool, ended <-chan time.Time) {
	end := make(chan time.Time, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: release,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() { end <- time.Now() }},
	})
	require.NoError(t, err)
	go elector.Run(ctx)
	return elector.IsLeader, end
}

func TestLeaderStopsBeforeTheLeaseIsAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := leasingtest.NewProvider()
		manager := func() *leasing.Manager { return leasingtest.NewManagerOn(t, backend, leasing.Options{}) }
		first, second := New(manager(), "app/controllers", "first"), New(manager(), "app/controllers", "second")
		firstLeads, firstEnded := candidate(context.Background(), t, first, false)
		synctest.Wait()
		require.True(t, firstLeads())
		ctx, stop := context.WithCancel(context.Background())
		secondLeads, secondEnded := candidate(ctx, t, second, true)
		<-time.After(time.Hour)
		require.True(t, firstLeads())
		require.False(t, secondLeads())
		record, _, err := second.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, first.Identity(), record.HolderIdentity)
		require.Contains(t, record.HolderIdentity, "first")

		held := first.lease
		heal := backend.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, leasing.ErrUnavailable))
		stopped := <-firstEnded
		require.WithinDuration(t, time.Now(), stopped, 0)
		require.NoError(t, held.Err(), "it is still held when the leader has stopped")
		heal()
		<-time.After(time.Minute)
		require.True(t, secondLeads())
		stop()
		<-secondEnded
		record, _, err = first.Get(t.Context())
		require.NoError(t, err)
		require.Empty(t, record.HolderIdentity, "released")
	})
}

// A lease that a leader has lost is not acquired again within the same term.
func TestLeaderWhoseLeaseIsGoneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, _ := leasingtest.NewManager(t, leasing.Options{})
		lock := New(manager, "app/controllers", "me")
		_, ended := candidate(context.Background(), t, lock, false)
		<-time.After(time.Minute)
		_, err := manager.Break(t.Context(), "app/controllers", leasing.BreakOptions{Immediate: true})
		require.NoError(t, err)
		began := time.Now()
		require.LessOrEqual(t, (<-ended).Sub(began), 12*time.Second)

		leads, again := candidate(context.Background(), t, lock, false) // a new term may acquire it
		<-time.After(time.Second)
		require.True(t, leads())
		_, err = manager.Break(t.Context(), "app/controllers", leasing.BreakOptions{Immediate: true})
		require.NoError(t, err)
		<-again
	})
}

// Client-go's loop counts from the reply, and the lease from the request: after a late reply the leader must still
// stop before its lease ends.
func TestTrap_T108_LeaderStopsInTimeAfterALateReply(t *testing.T) {
	for _, late := range []time.Duration{time.Second, 1900 * time.Millisecond, 4 * time.Second, 9 * time.Second} {
		for _, op := range []leasingtest.Op{leasingtest.Acquire, leasingtest.Renew} {
			synctest.Test(t, func(t *testing.T) {
				manager, backend := leasingtest.NewManager(t, leasing.Options{})
				lock := New(manager, "app/controllers", "me")
				ctx, stop := context.WithCancel(context.Background())
				defer stop()
				backend.Use(leasingtest.DelayReply(op, 1, late))
				_, ended := candidate(ctx, t, lock, false)
				<-time.After(late + time.Second)
				backend.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, leasing.ErrUnavailable))
				<-ended
				held := lock.lease.Err()
				_ = lock.lease.Release(t.Context())
				require.NoError(t, held, "%s, late by %v", op, late)
			})
		}
	}
}

// T234: two processes on one host pass the same identity, and client-go's loop treats a record with its own identity as
// its own.
func TestTrap_T234_OneIdentityTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := leasingtest.NewProvider()
		lock := func() *Lock {
			return New(leasingtest.NewManagerOn(t, backend, leasing.Options{}), "app/controllers", "host")
		}
		ctx, stop := context.WithCancel(context.Background())
		firstLeads, firstEnded := candidate(ctx, t, lock(), true)
		secondLeads, secondEnded := candidate(ctx, t, lock(), true)
		for range 60 {
			<-time.After(time.Second)
			require.NotEqual(t, firstLeads(), secondLeads())
		}
		stop()
		<-firstEnded
		<-secondEnded
	})
}
