package lifecycle

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/internal/trust"
)

func TestTrap_T10_JitterIsProportional(t *testing.T) {
	renewAfter := func(cadence time.Duration, random float64) time.Duration {
		l := New(&Rules{}, &Settings{Cadence: cadence})
		l.planRenewal(random)
		return l.nextRenew().Mono
	}
	for _, cadence := range []time.Duration{time.Millisecond, time.Second, time.Hour} {
		require.Equal(t, cadence, renewAfter(cadence, 0))
		require.InDelta(t, float64(cadence)*0.9, float64(renewAfter(cadence, 1)), 2)
	}
	require.Equal(t, trust.Forever, renewAfter(trust.Forever, 0.5))
}

func TestAttemptBound(t *testing.T) {
	require.Equal(t, time.Second, AttemptBound(3*time.Second, time.Minute))
	require.Equal(t, time.Minute, AttemptBound(time.Hour, time.Minute))
	require.Equal(t, time.Minute, AttemptBound(trust.Forever, time.Minute))
}

func TestRetryPause(t *testing.T) {
	require.Equal(t, 600*time.Millisecond, RetryPause(1, 30*time.Second, 12*time.Second, 0))
	require.Equal(t, 300*time.Millisecond, RetryPause(1, 30*time.Second, 12*time.Second, 1))
	require.Equal(t, 1200*time.Millisecond, RetryPause(2, 30*time.Second, 12*time.Second, 0), "doubles, up to a tenth of what is left")
	require.Equal(t, 1200*time.Millisecond, RetryPause(5, 30*time.Second, 12*time.Second, 0))
	require.Equal(t, time.Second, RetryPause(1, 24*time.Hour, 12*time.Hour, 0), "the first comes soon, however long the lease")
	require.Equal(t, MinRetry, RetryPause(1, 300*time.Millisecond, 10*time.Millisecond, 1))
	require.Positive(t, RetryPause(math.MaxInt32, time.Hour, trust.Forever, 0))
}
