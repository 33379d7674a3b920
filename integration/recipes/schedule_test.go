package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // so that time zones exist wherever the test runs

	"github.com/adhocore/gronx"
	gorhill "github.com/gorhill/cronexpr"
	hashicorp "github.com/hashicorp/cronexpr"
	netresearch "github.com/netresearch/go-cron"
	robfig "github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	"github.com/distributedleasing/leasing/recipes/schedule"
)

type timetable = func(t time.Time) time.Time

// nexts has a function for each cron library, which parses an expression and returns the method Next
// of the schedule, or a function that does the same.
var nexts = map[string]func(t *testing.T, expression string) timetable{
	"robfig/cron": func(t *testing.T, expression string) timetable {
		s, err := robfig.ParseStandard(expression)
		require.NoError(t, err)
		return s.Next
	},
	"netresearch/go-cron": func(t *testing.T, expression string) timetable {
		s, err := netresearch.ParseStandard(expression)
		require.NoError(t, err)
		return s.Next
	},
	"hashicorp/cronexpr": func(t *testing.T, expression string) timetable {
		s, err := hashicorp.Parse(expression)
		require.NoError(t, err)
		return s.Next
	},
	"gorhill/cronexpr": func(t *testing.T, expression string) timetable {
		s, err := gorhill.Parse(expression)
		require.NoError(t, err)
		return s.Next
	},
	"adhocore/gronx": func(_ *testing.T, expression string) timetable {
		return func(t time.Time) time.Time {
			next, err := gronx.NextTickAfter(expression, t, false)
			if err != nil {
				return time.Time{}
			}
			return next
		}
	},
}

var (
	places = []string{
		"Europe/Berlin", "America/New_York", "America/Havana", "America/Santiago",
		"Australia/Lord_Howe", "Africa/Casablanca", "Africa/Cairo", "Antarctica/Troll",
	}
	expressions = []string{"0 * * * *", "*/15 * * * *", "0 0 * * *", "30 2 * * *", "30 1 * * 0", "0 3 1 * *"}
)

// changes returns the times, from 2026 until the start of a year, at which the clocks of a place
// change.
func changes(place *time.Location, until int) (times []time.Time) {
	t := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	_, before := t.In(place).Zone()
	for ; t.Year() < until; t = t.Add(30 * time.Minute) {
		if _, offset := t.In(place).Zone(); offset != before {
			times, before = append(times, t), offset
		}
	}
	return times
}

// Each schedule starts within nine hours of a clock change, and continues for at least a day. Its
// clock is fast, so that it calls the library every quarter of an hour and not every 30 s.
// LEASING_TEST_SLOW makes 98,880 starts.
func TestTrap_T230_SchedulesOfFiveCronLibrariesAroundChangesOfClocks(t *testing.T) {
	step, until := 51, 2027 // three starts around each clock change of one year
	if os.Getenv("LEASING_TEST_SLOW") != "" {
		step, until = 1, 2028
	}
	for library, parse := range nexts {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			starts, odd := 0, 0
			for _, name := range places {
				place, err := time.LoadLocation(name)
				require.NoError(t, err)
				for _, change := range changes(place, until) {
					for _, expression := range expressions {
						next := memoize(parse(t, expression), place)
						var group []*scheduleFollower
						for n := -51; n <= 51; n += step {
							group = append(group, &scheduleFollower{
								library: library, expression: expression, place: place, next: next,
								at: change.Add(time.Duration(n) * 10 * time.Minute).Add(time.Second),
							})
						}
						synctest.Test(t, func(t *testing.T) { followAll(t, group) })
						for _, s := range group {
							starts++
							if s.odd {
								odd++
							}
						}
					}
				}
			}
			t.Logf("%d starts; %d met an odd tick, and reported it", starts, odd)
		})
	}
}

// scheduleFollower is one process that starts to follow a timetable.
type scheduleFollower struct {
	library, expression string
	place               *time.Location
	next                timetable
	at                  time.Time // by the clock of the process

	// The library's answers: the awaited tick, and whether any answer was odd.
	awaited time.Time
	odd     bool
	errs    []error
}

func (s *scheduleFollower) String() string {
	return fmt.Sprintf("%s %q in %v from %v", s.library, s.expression, s.place, s.at.In(s.place))
}

const fast = 30 // how many times faster the clock of a follower runs

// memoize calls a library only once for each time, since followers pass the same times.
func memoize(next timetable, place *time.Location) timetable {
	var mu sync.Mutex
	answers := map[time.Time]time.Time{}
	return func(t time.Time) time.Time {
		mu.Lock()
		defer mu.Unlock()
		answer, has := answers[t]
		if !has {
			answer = next(t.In(place))
			answers[t] = answer
		}
		return answer
	}
}

// followAll runs the schedules of followers side by side.
func followAll(t *testing.T, group []*scheduleFollower) {
	manager, _ := leasingtest.NewManager(t, leasing.Options{TTL: time.Minute})
	over := errors.New("the test is over")
	ctx, end := context.WithTimeoutCause(t.Context(), 26*time.Hour/fast, over)
	defer end()
	began := time.Now()
	var all sync.WaitGroup
	for i, s := range group {
		all.Go(func() {
			err := schedule.Run(ctx, manager, schedule.Options{
				Name: fmt.Sprint("jobs/", i),
				Now:  func() time.Time { return s.at.Add(fast * time.Since(began)) },
				Next: s.ask,
				OnError: func(_ time.Time, err error) {
					s.errs = append(s.errs, err)
				},
			}, func(context.Context, schedule.Tick) error { return nil })
			if !errors.Is(err, over) {
				t.Errorf("%v: Run ended: %v", s, err)
			}
		})
	}
	all.Wait()
	for _, s := range group {
		s.check(t)
	}
}

// ask returns the library's answer, and records whether the answer is odd.
func (s *scheduleFollower) ask(t time.Time) time.Time {
	answer := s.next(t)
	switch {
	case answer.IsZero(), !answer.After(t):
		s.odd = true
	case s.awaited.After(t) && !answer.Equal(s.awaited):
		s.odd = true
	}
	s.awaited = answer
	return answer
}

// check requires that a follower has reported odd ticks if there were any, and no other errors.
func (s *scheduleFollower) check(t *testing.T) {
	for _, err := range s.errs {
		var odd *schedule.OddTickError
		if !errors.As(err, &odd) {
			t.Errorf("%v: errors %v", s, err)
		}
	}
	if s.odd != (len(s.errs) > 0) {
		t.Errorf("%v: odd %v, and errors %v", s, s.odd, s.errs)
	}
}
