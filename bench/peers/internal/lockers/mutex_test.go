package lockers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMutexPassesOn: a waiter whose context has ended when its turn comes passes
// the lock on to the next waiter.
func TestMutexPassesOn(t *testing.T) {
	l, err := openMutex(t.Context(), Config{})
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Acquire(ended, "name")
	assert.ErrorIs(t, err, context.Canceled)
	lock, err := l.Try(t.Context(), "name")
	require.NoError(t, err)
	require.NoError(t, lock.Release(t.Context()))
}
