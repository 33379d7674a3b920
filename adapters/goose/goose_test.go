package gooselease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestContextEndsWithALossAndNotWithUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, provider := leasingtest.NewManager(t, leasing.Options{TTL: time.Minute})
		locker := New(manager, "app/migrate", nil)
		ctx, stop := locker.Context(t.Context())
		defer stop()
		require.NoError(t, locker.Lock(ctx, nil))
		require.NoError(t, locker.Unlock(ctx, nil))
		require.Error(t, locker.Unlock(ctx, nil), "not locked")
		synctest.Wait()
		require.NoError(t, ctx.Err())

		require.NoError(t, locker.Lock(ctx, nil))
		provider.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, leasing.ErrUnavailable))
		<-ctx.Done()
		synctest.Wait()
		require.ErrorAs(t, locker.Unlock(t.Context(), nil), new(*leasing.LostError))
	})
}

func TestLockGivesUpAfterItsWaitLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, _ := leasingtest.NewManager(t, leasing.Options{})
		first, second := New(manager, "app/migrate", nil), New(manager, "app/migrate", &leasing.AcquireOptions{WaitLimit: time.Second})
		require.NoError(t, first.Lock(t.Context(), nil))
		require.ErrorIs(t, second.Lock(t.Context(), nil), leasing.ErrHeld)
		require.NoError(t, first.Unlock(t.Context(), nil))
	})
}

func TestTrap_T106_UnlockAfterALossLeavesTheNextLockAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		manager, _ := leasingtest.NewManager(t, leasing.Options{TTL: time.Minute})
		locker := New(manager, "app/migrate", nil)
		require.NoError(t, locker.Lock(ctx, nil))
		_, err := manager.Break(ctx, "app/migrate", leasing.BreakOptions{Immediate: true})
		require.NoError(t, err)
		<-time.After(time.Minute) // the loss is noticed, and the migration goes on

		require.ErrorIs(t, locker.Lock(ctx, nil), leasing.ErrHeld, "its Unlock is still to come")
		require.ErrorIs(t, locker.Unlock(ctx, nil), leasing.ErrLost)
		require.NoError(t, locker.Lock(ctx, nil))
		require.NoError(t, locker.Unlock(ctx, nil))
	})
}
