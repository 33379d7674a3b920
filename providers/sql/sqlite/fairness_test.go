package sqlitelease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// After a burst of writes a process pauses if other processes are waiting.
func TestWriteBurstLetsOthersIn(t *testing.T) {
	paused := func(met bool, work, gap time.Duration) (pauses int) {
		synctest.Test(t, func(t *testing.T) {
			var b writeBurst
			if met {
				b.busy(t.Context(), 0)
			}
			for range 100 {
				before := time.Now()
				b.begin(t.Context())
				if time.Since(before) > 0 {
					pauses++
				}
				<-time.After(work)
				b.end()
				<-time.After(gap)
			}
		})
		return pauses
	}
	require.Zero(t, paused(false, 200*time.Microsecond, 0), "alone, nobody is to be let in")
	require.Zero(t, paused(true, 200*time.Microsecond, time.Millisecond), "others find the gaps")
	require.InDelta(t, 4, paused(true, 200*time.Microsecond, 0), 1)
	require.InDelta(t, 15, paused(true, 5*time.Millisecond, 0), 5, "until the others are forgotten")
}

func TestBusyHandlerLastsAsLongAsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b writeBurst
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		for count := 0; b.busy(ctx, count); count++ {
			require.Less(t, time.Since(begun), 2*time.Minute)
		}
		require.Equal(t, time.Minute, time.Since(begun))

		begun = time.Now()
		for count := 0; b.busy(context.Background(), count); count++ {
			require.Less(t, time.Since(begun), time.Minute)
		}
		require.InDelta(t, 11*time.Second, time.Since(begun), float64(time.Second))
		require.NotZero(t, b.contended.Load())
	})
}
