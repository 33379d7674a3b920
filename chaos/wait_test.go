package chaos_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
)

// wakeupTimes registers a waiter, frees the name a second later, and returns the times of the
// wake-ups within the next minute.
func wakeupTimes(t *testing.T, p *chaos.Provider, b *backend) []time.Duration {
	t.Helper()
	_, err := b.Provider.Acquire(t.Context(), claim("n", "holder"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wakeups, err := p.Wait(ctx, abstractions.WaitRequest{Name: "n", ID: "waiter"})
	require.NoError(t, err)
	require.Equal(t, 1, cap(wakeups.C))
	time.Sleep(second)
	freed := time.Now()
	require.NoError(t, b.Provider.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "holder"}))
	end := time.NewTimer(time.Minute)
	var times []time.Duration
	for {
		select {
		case <-wakeups.C:
			times = append(times, time.Since(freed))
		case <-end.C:
			return times
		}
	}
}

func TestFaultsOfWakeups(t *testing.T) {
	for what, test := range map[string]struct {
		rule chaos.Rule
		want []time.Duration
	}{
		"none":      {chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultError}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpPing}}}, []time.Duration{0}},
		"lost":      {chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultWakeupsLost}}, nil},
		"late":      {chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultDeliveredLate, Delay: 3 * second}}, []time.Duration{3 * second}},
		"twice":     {chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultAppliedTwice, Delay: 3 * second}}, []time.Duration{0, 3 * second}},
		"cut off":   {chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultPartitioned}, When: chaos.Policy{From: second / 2, To: 5 * second}}, nil},
		"cut later": {chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultPartitioned}, When: chaos.Policy{From: 3 * second}}, []time.Duration{0}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, b := wrapped(t, test.rule)
				assert.Equal(t, test.want, wakeupTimes(t, p, b))
				assert.Len(t, b.times(chaos.OpWait), 1)
				injected := 1
				if what == "none" || what == "cut later" {
					injected = 0
				}
				assert.Equal(t, injected, p.Report().Injected, "of the registration, or of the wake-up that was lost")
				synctest.Wait() // synctest.Test fails if a goroutine of the registration is left
			})
		})
	}
}

// TestTrap_T40_ARegistrationEndsWithItsContext: the goroutine of a registration ends with the
// context, before Close.
func TestTrap_T40_ARegistrationEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultAppliedTwice}})
		before := runtime.NumGoroutine()
		ctx, cancel := context.WithCancel(t.Context())
		for range 100 {
			_, err := p.Wait(ctx, abstractions.WaitRequest{Name: "n", ID: "waiter"})
			require.NoError(t, err)
		}
		require.Greater(t, runtime.NumGoroutine(), before+50)
		cancel()
		synctest.Wait()
		require.Less(t, runtime.NumGoroutine(), before+50)
	})
}

// TestARegistrationThatFails: a registration that fails has no wake-ups, and the caller gets its
// error.
func TestARegistrationThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultReplyLost}}, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultPartitioned}, When: chaos.Policy{From: time.Hour}})
		wakeups, err := p.Wait(t.Context(), abstractions.WaitRequest{Name: "n", ID: "waiter"})
		require.ErrorIs(t, err, chaos.ErrInjected)
		assert.Nil(t, wakeups.C)
		assert.Len(t, b.times(chaos.OpWait), 1)
	})
}

// TestTrap_T32_AWaiterWithoutWakeupsPolls: with all wake-ups lost the waiter still gets the name.
func TestTrap_T32_AWaiterWithoutWakeupsPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultWakeupsLost}})
		manager, err := leasing.NewManager(p, leasing.Options{})
		require.NoError(t, err)
		holder, err := manager.Acquire(t.Context(), "n")
		require.NoError(t, err)
		other, err := leasing.NewManager(p, leasing.Options{})
		require.NoError(t, err)
		time.AfterFunc(5*second, func() { assert.NoError(t, holder.Release(context.Background())) })
		lease, err := other.With(leasing.AcquireOptions{WaitLimit: time.Minute}).Acquire(t.Context(), "n")
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, other.Close(t.Context()))
		require.NoError(t, manager.Close(t.Context()))
		assert.NotZero(t, p.Report().ByKind[chaos.FaultWakeupsLost])
	})
}
