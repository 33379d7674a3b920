package lockers

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQueueServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := openQueue(t.Context(), Config{})
		require.NoError(t, err)
		lock, err := l.Try(t.Context(), "name")
		require.NoError(t, err)
		var order []int
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				lock, err := l.Acquire(t.Context(), "name")
				assert.NoError(t, err)
				order = append(order, i)
				assert.NoError(t, lock.Release(t.Context()))
			})
			synctest.Wait() // it stands in the queue
		}
		require.NoError(t, lock.Release(t.Context()))
		all.Wait()
		assert.Equal(t, []int{0, 1, 2, 3, 4}, order)
	})
}

// TestLocalLocksPassOn: who finds its context ended when its turn has come lets
// the next one in.
func TestLocalLocksPassOn(t *testing.T) {
	for _, open := range []func(context.Context, Config) (Locker, error){openMutex, openQueue} {
		l, err := open(t.Context(), Config{})
		require.NoError(t, err)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = l.Acquire(ended, "name")
		assert.ErrorIs(t, err, context.Canceled)
		lock, err := l.Try(t.Context(), "name")
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
	}
}
