package sqllease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A process lets others in after a stretch of writing, if there are others.
func TestWriteBurstLetsOthersIn(t *testing.T) {
	paused := func(met bool, work, gap time.Duration) (pauses int) {
		synctest.Test(t, func(t *testing.T) {
			var b writeBurst
			if met {
				b.noteContention()
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
		h := busyHandler{burst: new(writeBurst)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		for count := 0; h.wait(ctx, count); count++ {
			require.Less(t, time.Since(begun), 2*time.Minute)
		}
		require.Equal(t, time.Minute, time.Since(begun))

		begun = time.Now()
		for count := 0; h.wait(context.Background(), count); count++ {
			require.Less(t, time.Since(begun), 2*longestBusy)
		}
		require.InDelta(t, longestBusy, time.Since(begun), float64(10*time.Millisecond))
		require.NotZero(t, h.burst.contended.Load())
	})
}

func TestFairLockServesInOrderUrgentFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := newFairLock()
		require.NoError(t, lock.lock(t.Context(), false))
		var served []int
		leaving, leave := context.WithCancel(t.Context())
		enter := func(ctx context.Context, n int, urgent bool) {
			go func() {
				if lock.lock(ctx, urgent) == nil {
					served = append(served, n)
					lock.unlock()
				}
			}()
			synctest.Wait()
		}
		enter(t.Context(), 1, false) // the first of the others keeps its place
		enter(leaving, 4, false)
		enter(t.Context(), 5, false)
		enter(t.Context(), 2, true)
		enter(t.Context(), 3, true)
		leave()
		synctest.Wait()
		lock.unlock()
		synctest.Wait()
		require.Equal(t, []int{1, 2, 3, 5}, served)
		require.Empty(t, lock.taken)
		require.Empty(t, lock.first)
	})
}
