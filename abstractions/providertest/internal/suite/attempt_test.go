package suite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A check in real time that fails is repeated while the machine stalls, and fails at once on a calm machine.
func TestAttempts(t *testing.T) {
	for name, c := range map[string]struct {
		stall           time.Duration
		failing         int
		fails           bool
		runs, cleanedUp int
	}{
		"it passes":                               {runs: 1, cleanedUp: 1},
		"it fails while nothing stalls":           {failing: 100, fails: true, runs: 1, cleanedUp: 1},
		"it fails twice while the machine stalls": {stall: maxStall, failing: 2, runs: 3, cleanedUp: 3},
		"it fails each time":                      {stall: time.Second, failing: 100, fails: true, runs: maxAttempts, cleanedUp: maxAttempts},
	} {
		t.Run(name, func(t *testing.T) {
			outer := &attempt{TB: t}
			runs, cleanedUp := 0, 0
			leftOut := RetryOnStall(outer, func() func() time.Duration { return func() time.Duration { return c.stall } }, func(t testing.TB) string {
				t.Cleanup(func() { cleanedUp++ })
				if runs++; runs <= c.failing {
					t.Errorf("it failed")
					t.Cleanup(t.FailNow)
				}
				return "left out"
			})
			require.Equal(t, "left out", leftOut)
			require.Equal(t, c.fails, outer.Failed())
			require.Equal(t, c.runs, runs)
			require.Equal(t, c.cleanedUp, cleanedUp)
		})
	}
}
