package managertest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// A Do inside a Do of the same name waits for the outer lease. The error says that this manager holds the name.
func TestDoWithinDoOfOneName(t *testing.T) {
	virtual(t, leasing.Options{Owner: "us"}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		nothing := func(context.Context, *leasing.Lease) error { panic("not reached") }
		inner := map[string]func(ctx context.Context) error{
			"wait limit": func(ctx context.Context) error {
				return m.With(leasing.AcquireOptions{WaitLimit: time.Minute}).Do(ctx, name, nothing)
			},
			"once": func(ctx context.Context) error { return m.TryDo(ctx, name, nothing) },
			"context": func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				return m.Do(ctx, name, nothing)
			},
			"two at once": func(ctx context.Context) error {
				go func() { _ = m.With(leasing.AcquireOptions{WaitLimit: time.Hour}).Do(ctx, name, nothing) }()
				time.Sleep(time.Second)
				return m.With(leasing.AcquireOptions{WaitLimit: time.Minute}).Do(ctx, name, nothing)
			},
		}
		for how, nested := range inner {
			err := m.Do(t.Context(), name, func(ctx context.Context, _ *leasing.Lease) error {
				err := nested(ctx)
				var held *leasing.HeldError
				require.ErrorAs(t, err, &held, how)
				require.ErrorIs(t, err, leasing.ErrHeld)
				require.True(t, held.ByThisManager, how)
				require.ErrorContains(t, err, "held by this manager: \"us\"", how)
				return nil
			})
			require.NoError(t, err)
		}

		// A lease of another manager is not this manager's own, even if both have the same owner.
		other := leasingtest.NewManagerOn(t, p, leasing.Options{Owner: "us"})
		acquire(t, other, nil)
		_, err := m.TryAcquire(t.Context(), name)
		var held *leasing.HeldError
		require.ErrorAs(t, err, &held)
		require.False(t, held.ByThisManager)
		require.ErrorContains(t, err, "held by another")
	})
}

// The error also says that this manager holds the name if a waiter's limit passes before the waiter's first request.
func TestOwnHolderOfAWaiterThatHasNotAsked(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, _ *leasingtest.Provider) {
		first := acquire(t, m, nil)
		leaves, leave := context.WithCancel(t.Context())
		wait := func(ctx context.Context, limit time.Duration) <-chan error {
			done := make(chan error, 1)
			go func() {
				l, err := m.With(leasing.AcquireOptions{WaitLimit: limit}).Acquire(ctx, name)
				if err == nil {
					time.Sleep(time.Second)
					err = l.Release(context.Background())
				}
				done <- err
			}()
			synctest.Wait()
			return done
		}
		next, head, behind := wait(t.Context(), 0), wait(leaves, 0), wait(t.Context(), 100*time.Millisecond)
		require.NoError(t, first.Release(t.Context()))
		synctest.Wait() // the first waiter has the name; next is its channel
		leave()
		require.ErrorIs(t, <-head, context.Canceled)
		var held *leasing.HeldError
		require.ErrorAs(t, <-behind, &held)
		require.True(t, held.ByThisManager)
		require.NoError(t, <-next)
	})
}
