package schedule

import (
	"cmp"
	"runtime/debug"
	"time"

	"github.com/distributedleasing/leasing"
)

// next returns the first tick after t, or the zero time after the last tick. It reports an odd answer.
func (r *runner) next(t time.Time) (time.Time, error) {
	tick, odd, err := r.resolve(t)
	r.reportOdd(odd, tick)
	return tick, err
}

// resolve returns the first tick after t, or the zero time after the last tick. If Next returns
// something else, resolve searches for the first tick after the odd period.
func (r *runner) resolve(t time.Time) (tick time.Time, odd *OddTickError, err error) {
	answer, err := r.callNext(t)
	if err == nil && answer.After(t) {
		return answer, nil, nil
	}
	switch following := r.searchAfterOdd(t); {
	case !following.IsZero():
		return following, &OddTickError{After: t, Answer: answer, Err: err}, nil
	case err == nil && !answer.IsZero():
		err = notAfter(t, answer)
	}
	return time.Time{}, nil, err
}

// callNext returns the result of Next, in UTC and without a monotonic part. If Next panics, the error reports the panic.
func (r *runner) callNext(t time.Time) (answer time.Time, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack(), function: "Options.Next"}
		}
	}()
	if answer = r.Next(t); answer.IsZero() {
		return time.Time{}, nil
	}
	return answer.Round(0).UTC(), nil
}

func notAfter(t, answer time.Time) error {
	return &leasing.InvalidError{Field: "Options.Next", Value: answer, Want: "a time after its argument " + t.String()}
}

// maxOddDuration bounds the search for a tick. gronx 1.20.4 finds no tick beyond some clock changes, so for a timetable with one
// tick a year the odd period begins at the previous tick.
const maxOddDuration = 400 * 24 * time.Hour

// searchAfterOdd returns the first tick after the odd period that contains t, or the zero time if it finds no such
// tick. It searches, to the second, for the time from which Next again returns times after its argument. It remembers the latest
// result, since Run asks every 30 s.
func (r *runner) searchAfterOdd(t time.Time) (tick time.Time) {
	if !t.Before(r.oddFrom) && t.Before(r.oddUntil) {
		return r.following
	}
	found := func(d time.Duration) bool {
		answer, err := r.callNext(t.Add(d))
		if err != nil || !answer.After(t.Add(d)) {
			return false
		}
		tick = answer
		return true
	}
	odd, fine := time.Duration(0), time.Second
	for !found(fine) {
		if odd, fine = fine, 2*fine; odd > maxOddDuration {
			return time.Time{}
		}
	}
	for fine-odd > time.Second {
		if middle := (odd + fine) / 2; found(middle) {
			fine = middle
		} else {
			odd = middle
		}
	}
	r.oddFrom, r.oddUntil, r.following = t, t.Add(odd), tick
	return tick
}

// upcoming returns the first tick after t. It also calls Next with a later time before that tick. If
// the answers differ, both are ticks, and upcoming returns the earlier.
func (r *runner) upcoming(t, later time.Time) (time.Time, error) {
	tick, odd, err := r.resolve(t)
	if err == nil && later.After(t) && later.Before(tick) {
		var again time.Time
		var laterOdd *OddTickError
		again, laterOdd, err = r.resolve(later)
		if laterOdd == nil && !again.Equal(tick) {
			laterOdd = &OddTickError{After: later, Answer: again}
		}
		odd = cmp.Or(odd, laterOdd)
		if !again.IsZero() && again.Before(tick) {
			tick = again
		}
	}
	r.reportOdd(odd, tick)
	return tick, err
}

// reportOdd passes odd to OnError, once for each next tick, unless odd is nil.
func (r *runner) reportOdd(odd *OddTickError, tick time.Time) {
	if odd != nil && !tick.Equal(r.lastReported) {
		r.lastReported, odd.Tick = tick, tick
		r.OnError(tick, odd)
	}
}

// checkNext refuses a function that is not a timetable at all. A timetable may be odd around a clock change, so a correct answer
// at one of four times in a hundred days is enough.
func (r *runner) checkNext(now time.Time) (err error) {
	for _, days := range [...]int{0, 10, 50, 100} {
		if err = r.checkAt(now.AddDate(0, 0, days)); err == nil {
			return nil
		}
	}
	return err
}

// checkAt calls Next with two times before the same tick. The answers have to be the same: otherwise each process would have its
// own ticks.
func (r *runner) checkAt(t time.Time) error {
	tick, err := r.callNext(t)
	if err != nil || tick.IsZero() {
		return err
	}
	if !tick.After(t) {
		return notAfter(t, tick)
	}
	again, err := r.callNext(midpoint(t, tick))
	if err == nil && !again.Equal(tick) {
		err = &leasing.InvalidError{Field: "Options.Next", Value: again, Want: "the same tick as before, " + tick.String() + ": ticks must not depend on the time of the call; for a period set Every"}
	}
	return err
}

func midpoint(t, tick time.Time) time.Time { return t.Add(tick.Sub(t) / 2) }

// latest returns the latest tick that has come by now, the number of ticks after the given tick up
// to the latest, and the end of the time in which the latest is current.
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
