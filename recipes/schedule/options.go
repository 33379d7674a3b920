package schedule

import (
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
)

// Options describe a schedule. All processes should have the same options: ticks
// are identified by their times alone, so different timetables are all followed.
type Options struct {
	// Name of the schedule, and of the lease that the job runs under. Required.
	// Ticks are marked by leases called Name/tick/ and the time. Use these
	// names for nothing else.
	Name string

	// Every is the time from one tick to the next, a second or more. Ticks are
	// the multiples of it since the year 1, in UTC: with 24 h midnight, with an
	// hour the full hours. Either Every or Next is required.
	Every time.Duration
	// Next returns the first tick after t, or the zero time if there is none.
	// The schedules of cron libraries have such a method. It is given times in
	// UTC, so that machines with different time zones agree; for the calendar
	// of a place, convert them first. Its ticks must not depend on when it is
	// asked: "an hour from t" is no timetable.
	Next func(t time.Time) time.Time

	// StartWithin is how late the job may be started for a tick, if the backend
	// could not be reached, say. The next tick ends that time in any case.
	// Default 30 min.
	StartWithin time.Duration `option:"default=30m"`
	// CatchUp makes a process that begins start the tick that is current, if
	// nobody has. Otherwise it waits for the next one.
	CatchUp bool
	// Jitter is the longest that a process waits after a tick before it tries to
	// take it; the time is random. It saves requests, since most processes then
	// find that another one has taken the tick. Default 1 s, or a tenth of
	// StartWithin if that is less; negative means none.
	Jitter time.Duration `option:"min=-1h"`

	// AtLeastOnce repeats runs that did not return by themselves, instead of
	// starting each tick at most once: see the package's documentation.
	AtLeastOnce bool
	// Timeout, unless 0, is how long a run may take. Then its context ends, with
	// ErrTimeout as the cause.
	Timeout time.Duration

	// OnError is called with what went wrong with a tick: the error of the job, a
	// *PanicError if it panicked; a lease that was lost, or could not be
	// released; a *SkippedError; a *MissedError. Then the schedule goes on. Run
	// calls it, so nothing else happens meanwhile. Required.
	OnError func(tick time.Time, err error)

	// Lease configures the lease that the job runs under: its TTL, say, which
	// is how long a crash may delay a repetition. WaitLimit must be 0. The tick
	// is added to the Metadata, as "tick".
	Lease leasing.AcquireOptions

	// Now is the clock that ticks are read from. Default time.Now.
	Now func() time.Time
}

func (o Options) complete(c leasing.Capabilities) (Options, error) {
	if err := providerkit.Complete(&o); err != nil {
		return o, err
	}
	if o.Jitter == 0 {
		o.Jitter = min(time.Second, o.StartWithin/10)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	switch {
	case o.OnError == nil:
		return o, &leasing.InvalidError{Field: "Options.OnError", Value: nil, Want: "a function: errors go nowhere else"}
	case (o.Next == nil) == (o.Every == 0):
		return o, &leasing.InvalidError{Field: "Options.Every", Value: o.Every, Want: "a period; or 0 and Next"}
	case o.Next == nil && o.Every < time.Second:
		return o, &leasing.InvalidError{Field: "Options.Every", Value: o.Every, Want: "at least 1s; for shorter periods elect a leader"}
	case o.Jitter >= o.StartWithin:
		return o, &leasing.InvalidError{Field: "Options.Jitter", Value: o.Jitter, Want: fmt.Sprintf("less than StartWithin, which is %v", o.StartWithin)}
	case o.Lease.WaitLimit != 0:
		return o, &leasing.InvalidError{Field: "Options.Lease.WaitLimit", Value: o.Lease.WaitLimit, Want: "0: how long to try is a matter of StartWithin"}
	}
	if every := o.Every; every != 0 {
		o.Next = func(t time.Time) time.Time { return t.Truncate(every).Add(every) }
	}
	return o, recipe.ValidateName(o.Name, len("/tick/"+tickFormat), c)
}
