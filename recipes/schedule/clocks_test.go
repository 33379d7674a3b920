package schedule

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
	_ "time/tzdata" // for machines without time zones

	"github.com/stretchr/testify/require"
)

func TestClocksThatDisagreeStartNoTickTwice(t *testing.T) {
	for _, atLeastOnce := range []bool{false, true} {
		t.Run(fmt.Sprintf("AtLeastOnce %v", atLeastOnce), func(t *testing.T) {
			withFixture(t, func(t *testing.T, s *fixture) {
				s.sleepUntil(30 * time.Minute)
				skews := []time.Duration{-20 * time.Minute, -time.Minute, 0, 30 * time.Second, 10 * time.Minute}
				for i, skew := range skews {
					s.run(fmt.Sprint(i), Options{
						AtLeastOnce: atLeastOnce,
						Now:         func() time.Time { return time.Now().Add(skew) },
					}, nil)
				}
				s.sleepUntil(24*time.Hour + 30*time.Minute)
				starts := s.started()
				require.Len(t, starts, 24)
				for i, start := range starts {
					tick := s.began.Add(time.Duration(i+1) * time.Hour)
					require.Equal(t, tick, start.tick)
					require.Equal(t, "4", start.owner, "the clock that is ahead of the others starts it")
					require.WithinRange(t, start.at, tick.Add(-10*time.Minute), tick.Add(-10*time.Minute+time.Second))
				}
			})
		})
	}
}

func TestAClockThatIsStepped(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		var step atomic.Int64
		set := func(d time.Duration) { step.Store(int64(d)) }
		s.run("a", Options{Now: func() time.Time { return time.Now().Add(time.Duration(step.Load())) }}, nil)
		s.sleepUntil(61 * time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
		set(-10 * time.Minute) // 00:51: the tick comes again
		s.sleepUntil(85 * time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
		set(100 * 24 * time.Hour) // 100 days ahead, past a tick
		s.sleepUntil(125 * time.Minute)
		require.Len(t, s.ticks(), 3, "two of that day")
		set(0)
		s.sleepUntil(185 * time.Minute)
		require.Len(t, s.ticks(), 4, "it follows the right time again")
		require.Equal(t, s.began.Add(3*time.Hour), s.started()[3].tick)

		// The clock jumps forward over several ticks: only the latest is current.
		set(5*time.Hour + 10*time.Minute)
		s.sleepUntil(190 * time.Minute)
		require.Equal(t, []string{"08:00:00"}, s.ticks()[4:])
	})
}

func TestATickIsSeenSoonAfterTheClockJumpedOverIt(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		var asleep atomic.Int64
		s.run("a", Options{Every: 24 * time.Hour, Now: func() time.Time { return time.Now().Add(time.Duration(asleep.Load())) }}, nil)
		s.sleepUntil(time.Hour)
		asleep.Store(int64(23*time.Hour + time.Minute))
		s.sleepUntil(time.Hour + maxSleep + time.Second)
		require.Equal(t, []string{"00:00:00"}, s.ticks())
	})
}

func TestAJumpOverManyTicksIsCheap(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		var ahead, asked atomic.Int64
		ahead.Store(-int64(30 * 365 * 24 * time.Hour))
		s.run("a", Options{
			Now:  func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
			Next: func(t time.Time) time.Time { asked.Add(1); return t.Truncate(time.Minute).Add(time.Minute) },
		}, nil)
		s.sleepUntil(30 * time.Second)
		ahead.Store(0)
		s.sleepUntil(2*time.Minute + time.Second)
		require.Equal(t, []string{"00:01:00", "00:02:00"}, s.ticks()[max(0, len(s.ticks())-2):])
		require.LessOrEqual(t, asked.Load(), int64(100))
	})
}

func TestATimetableThatFollowsTheCalendarOfAPlace(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		berlin, err := time.LoadLocation("Europe/Berlin")
		require.NoError(t, err)
		daily := func(t time.Time) time.Time {
			t = t.In(berlin)
			next := time.Date(t.Year(), t.Month(), t.Day(), 2, 30, 0, 0, berlin)
			if !next.After(t) {
				next = time.Date(t.Year(), t.Month(), t.Day()+1, 2, 30, 0, 0, berlin)
			}
			return next
		}
		for _, month := range []time.Month{time.March, time.October} {
			eve := time.Date(2000, month, map[time.Month]int{time.March: 24, time.October: 27}[month], 12, 0, 0, 0, time.UTC)
			time.Sleep(time.Until(eve))
			before := len(s.started())
			var processes []*process
			for _, zone := range []*time.Location{time.UTC, berlin, time.FixedZone("elsewhere", -7*3600)} {
				processes = append(processes, s.run(zone.String(), Options{Next: daily, Now: func() time.Time { return time.Now().In(zone) }}, nil))
			}
			time.Sleep(4 * 24 * time.Hour)
			days := map[string]int{}
			for _, start := range s.started()[before:] {
				require.Equal(t, time.UTC, start.tick.Location())
				days[start.tick.In(berlin).Format("Jan 02")]++
			}
			require.Equal(t, map[time.Month]map[string]int{
				time.March:   {"Mar 25": 1, "Mar 26": 1, "Mar 27": 1, "Mar 28": 1},
				time.October: {"Oct 28": 1, "Oct 29": 1, "Oct 30": 1, "Oct 31": 1},
			}[month], days)
			for _, p := range processes {
				p.stop(errStop)
				require.Equal(t, errStop, p.awaitEnd())
			}
		}
	})
}
