package cas

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing/abstractions"
)

func TestALeaseIsOverByTheServicesTimes(t *testing.T) {
	e := &Expiry{Resolution: time.Second, Skew: 2 * time.Second}
	for name, test := range map[string]struct {
		ttl, ends, now time.Duration
		over           bool
	}{
		"just written":                   {10 * time.Second, 10 * time.Second, 0, false},
		"its TTL later":                  {10 * time.Second, 10 * time.Second, 10 * time.Second, false},
		"but for a second":               {10 * time.Second, 10 * time.Second, 12 * time.Second, false},
		"TTL, second and skew":           {10 * time.Second, 10 * time.Second, 13 * time.Second, true},
		"part of a second more":          {10*time.Second + 1, 10*time.Second + 1, 13 * time.Second, false},
		"read by a clock that is behind": {10 * time.Second, 10 * time.Second, -5 * time.Second, false},
		"infinite":                       {abstractions.Infinite, 0, 1 << 55, false},
	} {
		left, _ := e.left(holderState{Name: name, Write: "1", TTL: test.ttl, Ends: noon.Add(test.ends), Now: noon.Add(test.now)})
		require.Equal(t, test.over, left <= 0, name)
	}
}

// At any moment within a second, and with any allowed disagreement of clocks, a
// lease is never over before its TTL, and is always over after Lateness. Left is
// never less than the time that the lease has left, and at most Slack more.
func TestExpiryIsNeverEarlyNorTooLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		milliseconds := func(name string, least, most int64) time.Duration {
			return time.Duration(rapid.Int64Range(least, most).Draw(t, name)) * time.Millisecond
		}
		e := &Expiry{Resolution: time.Second, Skew: milliseconds("allowance", 1, 5000)}
		ttl := milliseconds("ttl", 5000, 100_000)
		replica := max(-e.Skew, min(e.Skew, milliseconds("replica", -5000, 5000)))
		written := noon.Add(milliseconds("written", 0, 5000))
		read := written.Add(milliseconds("later", 0, 130_000))
		stamp := written.Add(replica).Truncate(time.Second)
		left, slack := e.left(holderState{Name: "n", Write: "1", TTL: ttl, Ends: stamp.Add(ttl), Now: read.Truncate(time.Second)})
		later := read.Sub(written)
		require.GreaterOrEqual(t, left, min(ttl-later, ttl))
		switch {
		case later < ttl:
			require.Positive(t, left, "%v after the write", later)
			require.LessOrEqual(t, min(left, ttl)-slack, ttl-later)
		case later >= ttl+e.Lateness().After(ttl):
			require.LessOrEqual(t, left, time.Duration(0), "%v after the write", later)
		}
	})
}

// If a write was seen a TTL ago and is still the latest, its lease is over,
// whether or not the service reports times.
func TestAWatchedLeaseIsOver(t *testing.T) {
	for _, clock := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := &Expiry{Resolution: time.Second, Skew: 2 * time.Second}
			seen := func(write string) time.Duration {
				l := holderState{Name: "n", Write: write, TTL: time.Minute}
				if clock { // the service's two clocks differ by half an hour
					l.Ends, l.Now = noon.Add(time.Hour), noon.Add(30*time.Minute)
				}
				left, slack := e.left(l)
				require.Equal(t, clock, slack != abstractions.Infinite)
				return left
			}
			const enough = time.Minute + 600*time.Millisecond + watchFloor
			require.Equal(t, enough, seen("1"))
			time.Sleep(30 * time.Second)
			require.Equal(t, enough-30*time.Second, seen("1"))
			require.Equal(t, enough, seen("2"), "the holder has renewed it")
			time.Sleep(enough - 1)
			require.EqualValues(t, 1, seen("2"))
			time.Sleep(time.Nanosecond)
			require.Zero(t, seen("2"))
			e.forget("n")
			require.Equal(t, enough, seen("2"))
		})
	}
}

func TestTheWatchIsBounded(t *testing.T) {
	var e Expiry
	for i := range 3 * maxWatched {
		e.left(holderState{Name: fmt.Sprint(i), Write: "1", TTL: time.Minute})
	}
	require.Len(t, e.seen, maxWatched)
}
