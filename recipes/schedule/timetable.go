package schedule

import (
	"time"

	"github.com/distributedleasing/leasing"
)

// next returns the first tick after t, or the zero time.
func (r *runner) next(t time.Time) (time.Time, error) {
	tick := r.Next(t)
	if tick.IsZero() {
		return time.Time{}, nil
	}
	tick = tick.Round(0).UTC()
	if !tick.After(t) {
		return time.Time{}, &leasing.InvalidError{Field: "Options.Next", Value: tick, Want: "a time after the one it was given, which was " + t.String()}
	}
	return tick, nil
}

// checkNext refuses what is no timetable. Asked in between it has to give the
// same tick, or each process would have ticks of its own.
func (r *runner) checkNext(t time.Time) error {
	tick, err := r.next(t)
	if err != nil || tick.IsZero() {
		return err
	}
	again, err := r.next(t.Add(tick.Sub(t) / 2))
	if err == nil && !again.Equal(tick) {
		err = &leasing.InvalidError{Field: "Options.Next", Value: again, Want: "the tick that it gave before, " + tick.String() + ": ticks must not depend on when they are asked for; for a period set Every"}
	}
	return err
}

// latest returns the last of the ticks that have come by now, how many come after
// the given one up to it, and when it will no longer be current.
func (r *runner) latest(tick, now time.Time) (latest time.Time, after int, end time.Time, err error) {
	for latest = tick; ; after++ {
		following, err := r.next(latest)
		if err == nil && !following.IsZero() && !following.After(now) {
			latest = following
			continue
		}
		end = latest.Add(r.StartWithin)
		if !following.IsZero() && following.Before(end) {
			end = following
		}
		return latest, after, end, err
	}
}
