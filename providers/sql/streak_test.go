package sqllease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A process lets others in after a stretch of writing, if there are others.
func TestStreakLetsOthersIn(t *testing.T) {
	paused := func(met bool, work, gap time.Duration) (pauses int) {
		synctest.Test(t, func(t *testing.T) {
			var s streak
			if met {
				s.meet()
			}
			for range 100 {
				before := time.Now()
				s.begin(t.Context())
				if time.Since(before) > 0 {
					pauses++
				}
				<-time.After(work)
				s.end()
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

func TestPatienceLastsAsLongAsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := patience{streak: new(streak)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		for count := 0; p.wait(ctx, count); count++ {
			require.Less(t, time.Since(begun), 2*time.Minute)
		}
		require.Equal(t, time.Minute, time.Since(begun))

		begun = time.Now()
		for count := 0; p.wait(context.Background(), count); count++ {
			require.Less(t, time.Since(begun), 2*mostPatience)
		}
		require.InDelta(t, mostPatience, time.Since(begun), float64(10*time.Millisecond))
		require.NotZero(t, p.streak.met.Load())
	})
}
