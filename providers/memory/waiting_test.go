package memlease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

func (p *Provider) mustWait(ctx context.Context, t testing.TB) <-chan struct{} {
	t.Helper()
	wakeups, err := p.Wait(ctx, abstractions.WaitRequest{Name: "a", ID: abstractions.NewID()})
	require.NoError(t, err)
	return wakeups.C
}

func isWoken(wakeups <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-wakeups:
		return true
	default:
		return false
	}
}

// TestReleaseWakesOne checks that a release wakes the waiter that has waited longest, and another
// waiter only if the first is stuck.
func TestReleaseWakesOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		first, second := p.mustWait(ctx, t), p.mustWait(t.Context(), t)
		for range 3 {
			req := acquireRequest("a", time.Minute)
			p.mustAcquire(t, req)
			p.mustRelease(t, req)
			require.True(t, isWoken(first))
			require.False(t, isWoken(second))
		}
		require.False(t, isWoken(first))
		other := acquireRequest("b", time.Minute)
		p.mustAcquire(t, other)
		p.mustRelease(t, other)
		require.False(t, isWoken(first), "another name")
	})
}

// TestTrap_T60_WakeupOfALeavingWaiterGoesToTheNext ends the head waiter's wait between
// its wake-up and its acquire.
func TestTrap_T60_WakeupOfALeavingWaiterGoesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		req := acquireRequest("a", time.Minute)
		p.mustAcquire(t, req)
		ctx, leave := context.WithCancel(t.Context())
		first, second := p.mustWait(ctx, t), p.mustWait(t.Context(), t)
		p.mustRelease(t, req)
		leave()
		require.True(t, isWoken(second))
		require.False(t, isWoken(first))
	})
}
