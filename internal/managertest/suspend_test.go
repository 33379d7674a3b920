package managertest_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// suspendable runs a test on a machine that can be suspended.
func suspendable(t *testing.T, options leasing.Options, test func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, machine *machine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, machine := leasingtest.NewProvider(), newMachine()
		m, err := newManagerOn(machine, p, options)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close(context.Background())) })
		test(t, m, p, machine)
	})
}

func TestTrap_T05_T61_SuspendEndsTheLeaseAtOnceAfterTheResume(t *testing.T) {
	suspendable(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, machine *machine) {
		var events, all journal
		defer m.Subscribe(all.observe)()
		l := acquire(t, m, &leasing.AcquireOptions{Observer: events.observe})
		time.Sleep(time.Minute) // renewed a few times
		before := l.Renewals()
		require.Positive(t, before)

		machine.Suspend(31 * time.Second)
		resumed := time.Now()
		requireLost(t, l, leasing.LostExpired) // because of the clocks, before any timer fires
		synctest.Wait()
		require.Equal(t, resumed, time.Now(), "Go's timers, which stood still, were not needed")
		require.Error(t, l.Context().Err())
		kinds := events.kinds()
		require.Equal(t, leasing.EventLost, kinds[len(kinds)-1])
		require.Len(t, events.ofKind(leasing.EventLost), 1)
		require.Len(t, all.ofKind(leasing.EventLost), 1)
		require.Zero(t, m.Health(t.Context()).Held)
	})
}

func TestTrap_T61_ContextEndsWithoutAnybodyAsking(t *testing.T) {
	suspendable(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, machine *machine) {
		l := acquire(t, m, &leasing.AcquireOptions{TTL: time.Hour})
		synctest.Wait() // the loop waits when the machine is suspended
		machine.Suspend(2 * time.Hour)
		resumed := time.Now()
		require.Equal(t, resumed, awaitEnd(t, l, time.Minute))
		require.Zero(t, p.Count(leasingtest.Renew))
	})
}

// A suspend after the loop has read the clocks, but before it sets the alarm, is noticed.
func TestTrap_T61_ASuspendBeforeTheAlarmIsSet(t *testing.T) {
	suspendable(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, machine *machine) {
		synctest.Wait()
		machine.BeforeAlarm(func() { machine.Suspend(31 * time.Second) })
		l := acquire(t, m, nil)
		began := time.Now()
		awaitEnd(t, l, time.Minute)
		require.Equal(t, began, time.Now(), "trust was over when the machine resumed")
		requireLost(t, l, leasing.LostExpired)
	})
}

// A release after a suspend reports that the lease was lost, not success.
func TestTrap_T05_ReleaseAfterASuspendSaysThatTheLeaseWasLost(t *testing.T) {
	suspendable(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, machine *machine) {
		for i := range 100 { // Release and the manager's loop race; the loop can't win every time
			l, err := m.Acquire(t.Context(), strconv.Itoa(i))
			require.NoError(t, err)
			machine.Suspend(31 * time.Second)
			require.ErrorIs(t, l.Release(t.Context()), leasing.ErrLost)
		}
	})
}

func TestShortSuspendOnlyBringsTheRenewalForward(t *testing.T) {
	suspendable(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, machine *machine) {
		l := acquire(t, m, nil)
		machine.Suspend(20 * time.Second) // beyond the cadence of 18 s
		require.Equal(t, window(30*time.Second)-20*time.Second, l.Remaining())
		synctest.Wait()
		require.Equal(t, 1, p.Count(leasingtest.Renew))
		require.NoError(t, l.Err())
		require.Equal(t, window(30*time.Second), l.Remaining())
		time.Sleep(time.Hour)
		require.NoError(t, l.Err())
	})
}

func TestManySuspendsInARow(t *testing.T) {
	suspendable(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, machine *machine) {
		l := acquire(t, m, nil)
		infinite, err := m.With(leasing.AcquireOptions{TTL: leasing.Infinite}).Acquire(t.Context(), "other")
		require.NoError(t, err)
		t.Cleanup(func() { _ = infinite.Release(context.Background()) })
		for range 50 {
			machine.Suspend(17 * time.Second)
			time.Sleep(5 * time.Second)
		}
		require.NoError(t, l.Err())
		machine.Suspend(24 * time.Hour)
		requireLost(t, l, leasing.LostExpired)
		require.NoError(t, infinite.Err())
		require.NoError(t, infinite.Release(t.Context()))
	})
}

func TestRenewalThatSleptThroughASuspendIsNotTrusted(t *testing.T) {
	suspendable(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, machine *machine) {
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			err := apply()
			if call.Op == leasingtest.Renew {
				machine.Suspend(time.Hour) // between the server's answer and its arrival
			}
			return err
		})
		l := acquire(t, m, &leasing.AcquireOptions{NoAutoRenew: true})
		require.ErrorIs(t, l.Renew(t.Context()), leasing.ErrLost)
		requireLost(t, l, leasing.LostExpired)
	})
}
