package hostclock

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

var morning = Time{Wall: time.Date(2026, 3, 1, 8, 0, 0, 123456789, time.UTC), Boot: "boot-1 time:[1]", SinceBoot: 5*time.Hour + 987654321}

// later returns the clocks after some time, during which the wall clock was set forward by step.
func (t Time) later(passed, step time.Duration) Time {
	t.Wall, t.SinceBoot = t.Wall.Add(passed+step), t.SinceBoot+passed
	return t
}

// T02 on one host: a step of the wall clock does not move the end of a lease.
func TestTrap_T02_StepsOfTheWallClockDecideNothing(t *testing.T) {
	d := morning.Deadline(time.Minute)
	for _, step := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour, time.Minute, -time.Second} {
		require.Positive(t, d.Left(morning.later(time.Minute-time.Nanosecond, step)), "step %v", step)
		require.LessOrEqual(t, d.Left(morning.later(time.Minute+time.Microsecond, step)), time.Duration(0), "step %v", step)
	}
}

func TestAfterARebootTheWallClockDecides(t *testing.T) {
	d := morning.Deadline(time.Minute)
	next := Time{Wall: morning.Wall.Add(50 * time.Second), Boot: "boot-2 time:[1]", SinceBoot: 10 * time.Hour}
	require.InDelta(t, 10*time.Second, d.Left(next), float64(time.Microsecond))
	require.True(t, d.OtherBoot(next))
	require.False(t, d.OtherBoot(morning))
	require.True(t, Time{Wall: morning.Wall}.Deadline(time.Minute).OtherBoot(next), "of a time without a BOOTTIME clock")
	require.False(t, d.OtherBoot(Time{Wall: next.Wall}), "there is none to write it anew by")

	// The wall clock decides between two time namespaces of one boot.
	other := morning.later(time.Second, 0)
	other.Boot, other.SinceBoot = "boot-1 time:[2]", 1000*time.Hour
	require.InDelta(t, 59*time.Second, d.Left(other), float64(time.Microsecond))
	require.False(t, d.OtherBoot(other))
}

func TestDeadlinesOfTheLongestLeases(t *testing.T) {
	const years = 100 * 365 * 24 * time.Hour
	now := Time{Wall: morning.Wall, Boot: "b", SinceBoot: math.MaxInt64 / 8}
	require.GreaterOrEqual(t, now.Deadline(years).Left(now), years)
	require.Equal(t, abstractions.Infinite, now.Deadline(abstractions.Infinite).Left(now))
	require.False(t, Deadline{}.OtherBoot(now))
	epoch := Time{Wall: time.Unix(5, 0)}
	require.Equal(t, time.Second, epoch.Deadline(time.Second).Left(epoch))
}

func TestHostClockAgreesWithItself(t *testing.T) {
	first := Now()
	second := Now()
	require.Equal(t, first.Boot, second.Boot)
	require.GreaterOrEqual(t, second.SinceBoot, first.SinceBoot)
}
