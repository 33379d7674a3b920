package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/internal/trust"
)

// A release that was answered is repeated four times, the last time at the end.
func TestTriesOfAnAnsweredRelease(t *testing.T) {
	tries, now := Tries{CleanUp: CleanUp{Until: at(27 * time.Second)}}, at(0)
	var pauses []time.Duration
	for n := 0; ; n++ {
		next := tries.Tried(now, TryResult{Answered: true}, Closing{}, 0)
		require.Equal(t, n == 0, next.FirstAnswer)
		if next.Done {
			break
		}
		require.False(t, next.Warn)
		pauses, now = append(pauses, next.Pause), now.Add(next.Pause)
	}
	require.Equal(t, []time.Duration{9 * time.Second, 6 * time.Second, 4 * time.Second, 8 * time.Second}, pauses)
	require.Equal(t, at(27*time.Second), now)
	require.True(t, tries.Answered())
}

// Without an answer the pauses double up to a second. The tries end with the claim.
func TestTriesWithoutAnAnswer(t *testing.T) {
	tries, now := Tries{CleanUp: CleanUp{Until: at(30 * time.Second)}}, at(0)
	longest := time.Duration(0)
	for {
		next := tries.Tried(now, TryResult{}, Closing{}, 0)
		if next.Done {
			break
		}
		longest, now = max(longest, next.Pause), now.Add(next.Pause)
	}
	require.Equal(t, time.Second, longest)
	require.GreaterOrEqual(t, now.Mono, 30*time.Second)
	require.False(t, tries.Answered())
	require.Greater(t, tries.Count(), 30)
}

// One answer ends the clean-up of an infinite claim. Until then warnings are due, ever less often.
func TestTriesOfAClaimWithoutEnd(t *testing.T) {
	forever := trust.Instant{Mono: trust.Forever, Boot: trust.Forever}
	tries := Tries{CleanUp: CleanUp{Until: forever}}
	var warned []int
	for range 20 {
		next := tries.Tried(at(0), TryResult{Denied: true}, Closing{}, 0)
		require.False(t, next.Done)
		require.LessOrEqual(t, next.Pause, time.Minute)
		if next.Warn {
			warned = append(warned, tries.Count())
		}
	}
	require.Equal(t, []int{1, 2, 4, 8, 16}, warned)
	require.True(t, tries.Tried(at(0), TryResult{Answered: true}, Closing{}, 0).Done)
}

// Close waits for one answer, which may be a refusal. Without an answer, it waits until GiveUpAt.
func TestTriesWhileTheManagerIsClosed(t *testing.T) {
	closing := Closing{Begun: true, GiveUpAt: at(10 * time.Second)}
	for _, r := range []TryResult{{Answered: true}, {Denied: true}} {
		tries := Tries{CleanUp: CleanUp{Until: at(time.Minute)}}
		require.True(t, tries.Tried(at(time.Second), r, closing, 0).Done, "%+v", r)
	}
	tries := Tries{CleanUp: CleanUp{Until: at(time.Minute)}}
	require.Equal(t, at(10*time.Second), tries.Deadline(closing))
	require.False(t, tries.Tried(at(9*time.Second), TryResult{}, closing, 0).Done)
	require.True(t, tries.Tried(at(10*time.Second), TryResult{}, closing, 0).Done)
	tries = Tries{CleanUp: CleanUp{Until: at(time.Minute)}}
	tries.Tried(at(0), TryResult{Answered: true}, Closing{}, 0)
	require.Equal(t, at(time.Minute), tries.Deadline(closing), "an answered one ends with its next answer")
}
