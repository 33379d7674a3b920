package sqllease

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// SQLite's writers take their turns at one, too.
func TestSemaphoreServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := make(semaphore, 1)
		require.NoError(t, lock.enter(t.Context()))
		var served []int
		leaving, leave := context.WithCancel(t.Context())
		for n, ctx := range []context.Context{t.Context(), leaving, t.Context(), t.Context()} {
			go func() {
				if lock.enter(ctx) == nil {
					served = append(served, n)
					lock.leave()
				}
			}()
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		lock.leave()
		synctest.Wait()
		require.Equal(t, []int{0, 2, 3}, served)
		require.Empty(t, lock)
	})
}

func TestPoolLimitLeavesOneConnection(t *testing.T) {
	require.Nil(t, poolLimit(0), "a pool without bound")
	require.Nil(t, poolLimit(1))
	l := poolLimit(2)
	require.NoError(t, l.enter(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.enter(ctx), context.Canceled)
	l.leave()
	require.NoError(t, l.enter(t.Context()))
}
