package certmagiclease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestLocksAreLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, backend := t.Context(), leasingtest.NewProvider()
		storage := func() *Storage {
			return New(&certmagic.FileStorage{}, leasingtest.NewManagerOn(t, backend, leasing.Options{TTL: time.Minute}), "tls/")
		}
		one, other := storage(), storage()
		require.NoError(t, one.Lock(ctx, "example.com"))
		locked, err := other.TryLock(ctx, "example.com")
		require.NoError(t, err)
		require.False(t, locked)
		require.Error(t, other.Unlock(ctx, "example.com"), "not its own")
		require.Error(t, other.RenewLockLease(ctx, "example.com", time.Hour))
		<-time.After(time.Hour)
		require.NoError(t, one.RenewLockLease(ctx, "example.com", time.Hour))
		require.NoError(t, one.Unlock(ctx, "example.com"))

		locked, err = other.TryLock(ctx, "example.com")
		require.NoError(t, err)
		require.True(t, locked)
		backend.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, leasing.ErrUnavailable))
		<-time.After(time.Hour)
		require.ErrorIs(t, other.Unlock(ctx, "example.com"), leasing.ErrLost)
		require.NoError(t, one.Lock(ctx, "example.com"))
		require.NoError(t, one.Unlock(ctx, "example.com"))
	})
}

func TestTrap_T106_UnlockAfterALossLeavesTheNextLockAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, backend := t.Context(), leasingtest.NewProvider()
		manager := leasingtest.NewManagerOn(t, backend, leasing.Options{TTL: time.Minute})
		storage := New(&certmagic.FileStorage{}, manager, "tls/")
		require.NoError(t, storage.Lock(ctx, "example.com"))
		_, err := manager.Break(ctx, "tls/example.com", leasing.BreakOptions{Immediate: true})
		require.NoError(t, err)
		<-time.After(time.Minute) // the loss is noticed, and the attempt goes on

		require.ErrorIs(t, storage.Lock(ctx, "example.com"), leasing.ErrHeld, "its Unlock is still to come")
		locked, err := storage.TryLock(ctx, "example.com")
		require.NoError(t, err)
		require.False(t, locked)
		require.ErrorIs(t, storage.Unlock(ctx, "example.com"), leasing.ErrLost)
		require.NoError(t, storage.Lock(ctx, "example.com"))
		require.NoError(t, storage.Unlock(ctx, "example.com"))
	})
}

// Certmagic tries for 30 days under one lock: a single loss of the lease must not end all attempts.
func TestTheNextAttemptAfterALossHasALeaseOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, backend := t.Context(), leasingtest.NewProvider()
		manager := leasingtest.NewManagerOn(t, backend, leasing.Options{TTL: time.Minute})
		storage, other := New(&certmagic.FileStorage{}, manager, "tls/"), New(&certmagic.FileStorage{}, leasingtest.NewManagerOn(t, backend, leasing.Options{}), "tls/")
		require.NoError(t, storage.Lock(ctx, "example.com"))
		heal := backend.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, leasing.ErrUnavailable))
		<-time.After(time.Hour)
		heal()
		require.NoError(t, other.Lock(ctx, "example.com"))
		require.ErrorIs(t, storage.RenewLockLease(ctx, "example.com", time.Hour), leasing.ErrHeld)
		require.NoError(t, other.Unlock(ctx, "example.com"))

		require.NoError(t, storage.RenewLockLease(ctx, "example.com", time.Hour))
		locked, err := other.TryLock(ctx, "example.com")
		require.NoError(t, err)
		require.False(t, locked)
		require.NoError(t, storage.Unlock(ctx, "example.com"))
		require.Error(t, storage.RenewLockLease(ctx, "example.com", time.Hour), "not locked")
		require.NoError(t, other.Lock(ctx, "example.com"))
		require.NoError(t, other.Unlock(ctx, "example.com"))
	})
}
