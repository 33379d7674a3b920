package gocronlease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// When the scheduler stops or its process dies, another process whose clock is behind still finds the job's name
// taken.
func TestTrap_T212_LockIsKeptForAtLeastAlsoWhenTheSchedulerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, provider := leasingtest.NewManager(t, leasing.Options{TTL: time.Minute})
		locker := &Locker{Manager: manager.With(leasing.AcquireOptions{Metadata: map[string]string{"job": "tick"}}), Prefix: "jobs/", AtLeast: 10 * time.Second}
		require.Nil(t, locker.Lease("tick"))
		began := time.Now()
		lock, err := locker.Lock(t.Context(), "tick")
		require.NoError(t, err)
		require.Equal(t, "jobs/tick", locker.Lease("tick").Name())
		_, err = locker.Lock(t.Context(), "tick")
		require.ErrorIs(t, err, leasing.ErrHeld)
		stopped, stop := context.WithCancel(t.Context())
		stop()
		require.NoError(t, lock.Unlock(stopped))
		require.Equal(t, began, time.Now(), "Unlock does not wait")
		require.Nil(t, locker.Lease("tick"))
		<-time.After(10*time.Second - time.Millisecond)
		_, err = locker.Lock(t.Context(), "tick")
		require.ErrorIs(t, err, leasing.ErrHeld)
		<-time.After(2 * time.Millisecond)

		lock, err = locker.Lock(t.Context(), "tick")
		require.NoError(t, err)
		provider.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, leasing.ErrUnavailable))
		<-locker.Lease("tick").Done()
		require.ErrorIs(t, lock.Unlock(t.Context()), leasing.ErrLost)
	})
}

func TestElectorIsLeaderWhileItIsTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, provider := leasingtest.NewManager(t, leasing.Options{TTL: time.Minute})
		_, err := NewElector(manager, "")
		require.ErrorIs(t, err, leasing.ErrInvalid)
		elector, err := NewElector(manager, "scheduler")
		require.NoError(t, err)
		require.ErrorIs(t, elector.IsLeader(t.Context()), ErrNotLeader)
		done := make(chan error)
		go func() { done <- elector.Run(context.Background()) }()
		synctest.Wait()
		require.NoError(t, elector.IsLeader(t.Context()))
		heal := provider.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, leasing.ErrUnavailable))
		<-time.After(time.Minute)
		require.ErrorIs(t, elector.IsLeader(t.Context()), ErrNotLeader)
		heal()
		<-time.After(time.Minute)
		require.NoError(t, elector.IsLeader(t.Context()), "it stands again")
		require.NoError(t, elector.Resign(t.Context()))
		require.NoError(t, <-done)
	})
}

func TestTrap_T106_JobAfterALossGetsNoTokenOfTheNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		manager, _ := leasingtest.NewManager(t, leasing.Options{TTL: time.Minute})
		locker := &Locker{Manager: manager, Prefix: "jobs/"}
		lock, err := locker.Lock(ctx, "tick")
		require.NoError(t, err)
		token := locker.Lease("tick").Token()
		_, err = manager.Break(ctx, "jobs/tick", leasing.BreakOptions{Immediate: true})
		require.NoError(t, err)
		<-time.After(time.Minute) // the loss is noticed, and the job goes on

		_, err = locker.Lock(ctx, "tick")
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.Equal(t, token, locker.Lease("tick").Token())
		require.ErrorIs(t, lock.Unlock(ctx), leasing.ErrLost)
		lock, err = locker.Lock(ctx, "tick")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ctx))
	})
}
