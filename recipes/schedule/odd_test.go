package schedule

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
)

// oddFrom and oddUntil are the beginning and the end of the time in which a timetable is odd.
const (
	oddFrom  = 90 * time.Minute
	oddUntil = 3*time.Hour + 30*time.Minute
)

func hourly(t time.Time) time.Time { return t.Truncate(time.Hour).Add(time.Hour) }

// oddAnswers are answers that cron libraries give around clock changes, instead of the tick after t.
func (s *fixture) oddAnswers() map[string]func(t time.Time) time.Time {
	return map[string]func(t time.Time) time.Time{
		"none":         func(time.Time) time.Time { return time.Time{} },
		"the same":     func(t time.Time) time.Time { return t },
		"earlier":      func(t time.Time) time.Time { return t.Add(-time.Hour) },
		"always one":   func(time.Time) time.Time { return s.began.Add(time.Hour) },
		"a panic":      func(time.Time) time.Time { panic(errBoom) },
		"out of order": func(t time.Time) time.Time { return hourly(t).Add(5 * time.Hour) },
		"gone":         func(t time.Time) time.Time { return t.Truncate(24 * time.Hour).Add(24 * time.Hour) },
	}
}

// oddTimetable is an hourly timetable that returns other answers for a while.
func (s *fixture) oddTimetable(answer func(t time.Time) time.Time) func(t time.Time) time.Time {
	return func(t time.Time) time.Time {
		if since := t.Sub(s.began); since >= oddFrom && since < oddUntil {
			return answer(t)
		}
		return hourly(t)
	}
}

func TestTrap_T230_AnOddTickIsReportedAndTheScheduleGoesOn(t *testing.T) {
	for what := range (&fixture{}).oddAnswers() {
		for _, start := range []time.Duration{30 * time.Minute, oddFrom, 2 * time.Hour, oddUntil - time.Second} {
			t.Run(what+" from "+start.String(), func(t *testing.T) {
				withFixture(t, func(t *testing.T, s *fixture) {
					s.sleepUntil(start)
					p := s.run("a", Options{Next: s.oddTimetable(s.oddAnswers()[what]), CatchUp: start == 2*time.Hour}, nil)
					s.sleepUntil(5*time.Hour + time.Minute)
					ticks := s.ticks()
					require.GreaterOrEqual(t, len(ticks), 2, "OnError got: %v", p.errorTexts())
					require.Equal(t, []string{"04:00:00", "05:00:00"}, ticks[len(ticks)-2:], "OnError got: %v", p.errorTexts())
					var odd *OddTickError
					require.ErrorAs(t, errors.Join(p.raw...), &odd)
					require.True(t, odd.Tick.After(odd.After))
					require.LessOrEqual(t, len(p.errorTexts()), 4, "one for each tick, and not one for each question: %v", p.errorTexts())
					if what == "a panic" {
						require.ErrorIs(t, odd, errBoom)
					}
				})
			})
		}
	}
}

func TestAnOddTickErrorNamesTheQuestionAndTheAnswer(t *testing.T) {
	at := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)
	odd := OddTickError{After: at, Tick: at.Add(2 * time.Hour)}
	for want, change := range map[string]func(e *OddTickError){
		"answered: none;":                 func(*OddTickError) {},
		"answered: 2026-03-29T00:00:00Z;": func(e *OddTickError) { e.Answer = at.Add(-time.Hour) },
		"answered: schedule: Options.Next panicked: boom;": func(e *OddTickError) {
			e.Err = &PanicError{Value: "boom", function: "Options.Next"}
		},
	} {
		err := odd
		change(&err)
		require.EqualError(t, &err, "schedule: odd timetable: asked for the tick after 2026-03-29T01:00:00Z, Options.Next "+want+" the next tick is 2026-03-29T03:00:00Z")
	}
}

// Run refuses a timetable that is never right.
func TestWhatIsNoTimetableIsRefused(t *testing.T) {
	for what, next := range map[string]func(t time.Time) time.Time{
		"a delay":      func(t time.Time) time.Time { return t.Add(time.Hour) },
		"the same":     func(t time.Time) time.Time { return t },
		"a panic":      func(time.Time) time.Time { panic(errBoom) },
		"a random one": func(t time.Time) time.Time { return t.Add(time.Duration(t.UnixNano()%1009+1) * time.Second) },
	} {
		withFixture(t, func(t *testing.T, s *fixture) {
			s.sleepUntil(30 * time.Minute)
			p := s.run("a", Options{Next: next}, nil)
			if what == "a panic" {
				require.ErrorIs(t, p.awaitEnd(), errBoom)
				return
			}
			require.ErrorIs(t, p.awaitEnd(), leasing.ErrInvalid, what)
		})
	}
}

// A timetable that the application changes while Run follows it is not odd.
func TestATimetableThatIsChangedIsFollowed(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		var period atomic.Int64
		period.Store(int64(4 * time.Hour))
		p := s.run("a", Options{Next: func(t time.Time) time.Time {
			every := time.Duration(period.Load())
			return t.Truncate(every).Add(every)
		}}, nil)
		s.sleepUntil(90 * time.Minute)
		period.Store(int64(time.Hour))
		s.sleepUntil(3*time.Hour - time.Minute)
		period.Store(int64(6 * time.Hour))
		s.sleepUntil(12*time.Hour + time.Minute)
		require.Equal(t, []string{"02:00:00", "06:00:00", "12:00:00"}, s.ticks())
		require.Empty(t, p.errorTexts())
	})
}

// T231: processes that call Next at different times may get different next ticks. The mark of a tick
// has to last for the process whose next tick is later.
func TestTrap_T231_ATickThatEndsEarlierElsewhereRunsOnce(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.decorated = forgetful{s.provider}
		const within = 6 * time.Hour
		next := func(soon bool) func(t time.Time) time.Time {
			return func(t time.Time) time.Time {
				if since := t.Sub(s.began); soon && since == 24*time.Hour {
					return t.Add(time.Minute)
				}
				return t.Truncate(24 * time.Hour).Add(24 * time.Hour)
			}
		}
		a := s.run("a", Options{Next: next(true), StartWithin: within, Jitter: -1}, nil)
		s.sleepUntil(24*time.Hour + 30*time.Second)
		a.stop(errStop)
		require.Equal(t, errStop, a.awaitEnd())
		require.NoError(t, a.manager.Close(context.Background()))
		s.sleepUntil(24*time.Hour + 90*time.Minute)
		s.run("b", Options{Next: next(false), StartWithin: within, CatchUp: true}, nil)
		s.sleepUntil(24*time.Hour + within)
		require.Equal(t, []string{"00:00:00"}, s.ticks())
	})
}
