package managertest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	memorylease "github.com/distributedleasing/leasing/providers/memory"
)

// freeAfter returns how long a name stays taken from now on, to the millisecond.
func freeAfter(t *testing.T, provider leasing.Provider, name string) time.Duration {
	t.Helper()
	record, err := provider.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
	require.NoError(t, err)
	left, known := record.Remaining()
	require.True(t, known)
	if !record.Held {
		return 0
	}
	return left.Round(time.Millisecond)
}

// A release leaves the name taken for the rest of AtLeast, and returns at once.
func TestTrap_T210_ReleaseKeepsTheNameForAtLeast(t *testing.T) {
	for what, c := range map[string]struct {
		ttl, atLeast, work time.Duration
		stays              time.Duration
	}{
		"longer than the TTL":             {10 * time.Second, time.Minute, time.Second, 59 * time.Second},
		"shorter than the TTL":            {10 * time.Second, 3 * time.Second, time.Second, 2 * time.Second},
		"at once":                         {10 * time.Second, time.Minute, 0, time.Minute},
		"after renewals":                  {10 * time.Second, time.Minute, 45 * time.Second, 15 * time.Second},
		"a work that is longer":           {10 * time.Second, 30 * time.Second, 31 * time.Second, 0},
		"an infinite lease":               {leasing.Infinite, time.Minute, 20 * time.Second, 40 * time.Second},
		"less than the provider's MinTTL": {10 * time.Second, time.Second, time.Second - time.Microsecond, 10 * time.Millisecond},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manager, provider := leasingtest.NewManager(t, leasing.Options{TTL: 10 * time.Second})
				other, err := leasing.NewManager(provider, leasing.Options{})
				require.NoError(t, err)
				began := time.Now()
				released := time.Duration(0)
				require.NoError(t, manager.With(leasing.AcquireOptions{TTL: c.ttl, AtLeast: c.atLeast}).Do(t.Context(), "name",
					func(context.Context, *leasing.Lease) error {
						<-time.After(c.work)
						released = time.Since(began)
						return nil
					}))
				require.Equal(t, released, time.Since(began), "the release does not wait")
				require.Equal(t, c.stays, freeAfter(t, provider, "name"))
				require.NoError(t, manager.Close(t.Context()))
				lease, err := other.Acquire(t.Context(), "name")
				require.NoError(t, err)
				require.GreaterOrEqual(t, time.Since(began), max(c.atLeast, c.work))
				require.NoError(t, lease.Release(t.Context()))
				require.NoError(t, other.Close(t.Context()))
			})
		})
	}
}

// The name stays taken for AtLeast even if the process ends and sends nothing more.
func TestTrap_T211_AProcessThatEndsKeepsTheNameForAtLeast(t *testing.T) {
	for _, dies := range []time.Duration{0, 7 * time.Second, 45 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			manager, provider := leasingtest.NewManager(t, leasing.Options{TTL: 10 * time.Second})
			lease, err := manager.With(leasing.AcquireOptions{AtLeast: time.Minute}).Acquire(t.Context(), "name")
			require.NoError(t, err)
			<-time.After(dies)
			for _, op := range []leasingtest.Op{leasingtest.Renew, leasingtest.Release} {
				provider.Use(leasingtest.Fail(op, leasingtest.Always, leasing.ErrUnavailable))
			}
			require.GreaterOrEqual(t, freeAfter(t, provider, "name"), time.Minute-dies)
			require.LessOrEqual(t, freeAfter(t, provider, "name"), max(time.Minute-dies, 10*time.Second))
			<-lease.Done()
			require.ErrorIs(t, lease.Err(), leasing.ErrLost)
		})
	}
}

// AtLeast does not change the cadence of renewals, which follows the TTL. So a loss is noticed as early as without AtLeast.
func TestAtLeastDoesNotChangeTheCadence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, provider := leasingtest.NewManager(t, leasing.Options{TTL: 10 * time.Second})
		lease, err := manager.With(leasing.AcquireOptions{AtLeast: time.Hour}).Acquire(t.Context(), "name")
		require.NoError(t, err)
		require.Equal(t, time.Hour, lease.TTL())
		<-time.After(time.Minute)
		require.GreaterOrEqual(t, provider.Count(leasingtest.Renew), 10)
		require.Equal(t, time.Hour-time.Minute, freeAfter(t, provider, "name").Round(10*time.Second))
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A release without an answer does not free the name before AtLeast has passed, neither at once nor when
// the manager is closed.
func TestAtLeastInAnOutage(t *testing.T) {
	for _, ttl := range []time.Duration{time.Minute, leasing.Infinite} {
		synctest.Test(t, func(t *testing.T) {
			manager, provider := leasingtest.NewManager(t, leasing.Options{TTL: time.Minute})
			lease, err := manager.With(leasing.AcquireOptions{TTL: ttl, AtLeast: 20 * time.Second}).Acquire(t.Context(), "name")
			require.NoError(t, err)
			<-time.After(time.Second)
			provider.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, leasing.ErrUnavailable))
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			require.ErrorIs(t, lease.Release(ctx), leasing.ErrUnavailable)
			if ttl != leasing.Infinite {
				began := time.Now()
				require.NoError(t, manager.Close(t.Context()))
				require.Equal(t, began, time.Now(), "it waits for nothing")
			}
			<-time.After(12 * time.Second) // the release took 6 s
			require.True(t, isHeld(t, provider, "name"))
			<-time.After(time.Minute)
			require.False(t, isHeld(t, provider, "name"))
		})
	}
}

func TestAtLeastThatTheBackendCannotKeep(t *testing.T) {
	provider := memorylease.New(memorylease.Options{})
	defer provider.Close()
	short := minuteMaxTTL{provider}
	manager, err := leasing.NewManager(short, leasing.Options{})
	require.NoError(t, err)
	defer manager.Close(t.Context())
	for _, atLeast := range []time.Duration{-1, time.Minute + 1} {
		_, err := manager.With(leasing.AcquireOptions{AtLeast: atLeast}).TryAcquire(t.Context(), "name")
		require.ErrorIs(t, err, leasing.ErrInvalid)
		require.ErrorContains(t, err, "AcquireOptions.AtLeast")
	}
	lease, err := manager.With(leasing.AcquireOptions{AtLeast: time.Minute}).TryAcquire(t.Context(), "name")
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))
	_, err = manager.TryAcquire(t.Context(), "name")
	require.ErrorIs(t, err, leasing.ErrHeld)
	held := (*leasing.HeldError)(nil)
	require.ErrorAs(t, err, &held)
	require.False(t, held.ByThisManager, "the lease is not one of the manager's any more")
}

// minuteMaxTTL is a provider that grants TTLs of at most a minute.
type minuteMaxTTL struct{ leasing.Provider }

func (s minuteMaxTTL) Capabilities() leasing.Capabilities {
	c := s.Provider.Capabilities()
	c.MaxTTL = time.Minute
	return c
}

// slowRenewals delays the renewals that make a lease infinite. They land even if their contexts have ended.
type slowRenewals struct {
	leasing.Provider
	lands time.Duration
}

func (s slowRenewals) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	if req.TTL == leasing.Infinite {
		time.Sleep(s.lands)
	}
	return s.Provider.Renew(context.WithoutCancel(ctx), req)
}

func (s slowRenewals) Capabilities() leasing.Capabilities {
	c := s.Provider.Capabilities()
	c.HeedsContext = false
	return c
}

// The first renewal makes a lease infinite. This renewal may be under way when the lease is released, and land after the renewal
// that shortens the lease.
func TestTrap_T281_ARenewalUnderWayLeavesNoInfiniteLease(t *testing.T) {
	released := func(t *testing.T, _ *leasing.Manager, lease *leasing.Lease) {
		require.NoError(t, lease.Release(t.Context()))
	}
	for what, c := range map[string]struct {
		lands time.Duration
		end   func(*testing.T, *leasing.Manager, *leasing.Lease)
	}{
		"an answer that comes soon": {time.Second, released},
		"an answer that comes late": {30 * time.Second, released},
		"a manager that is closed": {time.Second, func(t *testing.T, m *leasing.Manager, lease *leasing.Lease) {
			require.NoError(t, lease.Release(t.Context()))
			require.NoError(t, m.Close(t.Context()))
		}},
		"a holder that outlasts Close": {time.Second, func(t *testing.T, m *leasing.Manager, lease *leasing.Lease) {
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, m.Close(ended), context.Canceled)
			<-time.After(10 * time.Second)
			require.ErrorIs(t, lease.Release(t.Context()), leasing.ErrLost)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := memorylease.New(memorylease.Options{})
				manager, err := leasing.NewManager(slowRenewals{memory, c.lands}, leasing.Options{TTL: 10 * time.Second})
				require.NoError(t, err)
				defer manager.Close(t.Context())
				began := time.Now()
				lease, err := manager.With(leasing.AcquireOptions{TTL: leasing.Infinite, AtLeast: time.Minute}).Acquire(t.Context(), "name")
				require.NoError(t, err)
				<-time.After(100 * time.Millisecond)
				c.end(t, manager, lease)
				<-time.After(59*time.Second - time.Since(began))
				require.True(t, isHeld(t, memory, "name"))
				<-time.After(2 * time.Second)
				require.False(t, isHeld(t, memory, "name"))
			})
		})
	}
}

// An acquire without an answer may land after the release. The clean-up of that acquire does not free the name before AtLeast has
// passed.
func TestTrap_T282_AnUnansweredAcquireDoesNotEndAtLeast(t *testing.T) {
	for _, ttl := range []time.Duration{10 * time.Second, 5 * time.Minute, leasing.Infinite} {
		synctest.Test(t, func(t *testing.T) {
			manager, provider := leasingtest.NewManager(t, leasing.Options{TTL: 10 * time.Second})
			provider.Use(leasingtest.Fail(leasingtest.Acquire, 1, leasing.ErrUnavailable))
			lease, err := manager.With(leasing.AcquireOptions{TTL: ttl, AtLeast: time.Minute}).Acquire(t.Context(), "name")
			require.NoError(t, err)
			granted := time.Now()
			<-time.After(20 * time.Second)
			require.NoError(t, lease.Release(t.Context()))
			<-time.After(59*time.Second - time.Since(granted))
			require.True(t, isHeld(t, provider, "name"), ttl)
			<-time.After(2 * time.Second)
			require.False(t, isHeld(t, provider, "name"), ttl)
		})
	}
}

func isHeld(t *testing.T, provider leasing.Provider, name string) bool {
	t.Helper()
	record, err := provider.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
	require.NoError(t, err)
	return record.Held
}
