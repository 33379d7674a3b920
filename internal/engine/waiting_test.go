package engine_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	"github.com/distributedleasing/leasing/internal/engine"
)

func TestIdleQueuesOfManyNamesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := leasingtest.NewManager(t, leasing.Options{})
		other := leasingtest.NewManagerOn(t, p, leasing.Options{NoAutoRenew: true})
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		var waiters sync.WaitGroup
		for i := range 2 * engine.MaxRecent {
			held, err := other.TryAcquire(t.Context(), strconv.Itoa(i))
			require.NoError(t, err)
			defer func() { _ = held.Release(context.Background()) }()
			waiters.Go(func() { _, _ = m.Acquire(ctx, held.Name()) })
		}
		synctest.Wait()
		own := m.Interface().(*engine.Manager)
		require.Equal(t, 2*engine.MaxRecent, own.Remembered())
		leave()
		waiters.Wait()
		require.LessOrEqual(t, own.Remembered(), engine.MaxRecent)
	})
}
