package schedule

import (
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
)

// Options describe a schedule. All processes should have the same options. Ticks
// are identified only by their time, so processes with different timetables run
// the ticks of all timetables.
type Options struct {
	// Name is the name of the schedule, and of the lease under which the job runs. Required. Ticks
	// are marked by leases whose names are Name, /tick/ and the time. Do not use these names for anything else.
	Name string

	// Every is the time from one tick to the next, a second or more. Ticks are its multiples since
	// the year 1, in UTC: midnight for 24 h, each full hour for 1 h. Either Every or Next is
	// required.
	Every time.Duration
	// Next returns the first tick after t, or the zero time after the last tick. The schedules of
	// cron libraries have such a method. t is in UTC, so that machines in different time zones
	// agree; convert it first for local time. The ticks must not depend on t: "an hour after t" is
	// not a timetable. If Next contradicts itself, as cron libraries do around clock changes, OnError is called with an
	// *OddTickError, and the schedule follows the first later time that Next returns. Run calls Next at least every 30 s, with
	// two times before the same tick: if the two answers differ, it follows both.
	Next func(t time.Time) time.Time

	// StartWithin bounds the delay after which the job may still start for a tick, for
	// example because the backend could not be reached. It never extends past the next tick. It can
	// be at most the backend's MaxTTL less an hour, or half of a MaxTTL below 2 h, since the mark
	// of a tick has to last longer (30 s on Azure Blob, 11 h on S3). Default 30 min, or that bound
	// if it is less.
	StartWithin time.Duration `option:"default=30m"`
	// CatchUp makes a process that calls Run take the current tick, if no process has taken that
	// tick. Otherwise the process waits for the next tick.
	CatchUp bool
	// Jitter is the longest random time that a process waits after a tick before
	// it tries to take the tick. Jitter saves requests, since most processes
	// then find that another process has taken the tick. Default 1 s, or a tenth
	// of StartWithin if that is less; negative means no jitter.
	Jitter time.Duration `option:"min=-1h"`

	// AtLeastOnce repeats runs that did not return of their own accord,
	// instead of starting each tick at most once: see the package
	// documentation.
	AtLeastOnce bool
	// Timeout, unless 0, bounds the duration of a run. After that time the run's context ends with
	// the cause ErrTimeout.
	Timeout time.Duration

	// OnError is called with each error that concerns a tick: the job's error, or a *PanicError; the error of a lease that was
	// lost or could not be released; a *SkippedError; a *MissedError; an *OddTickError, once for each OddTickError.Tick. It is
	// also called with the current time when the backend refuses access before the first tick. After each call the schedule
	// continues. OnError is called on Run's goroutine, so it blocks the schedule. Required.
	OnError func(tick time.Time, err error)

	// Lease configures the lease under which the job runs. Its TTL bounds the
	// delay of a repetition after a crash. WaitLimit must be 0. The tick is
	// added to the Metadata, as "tick".
	Lease leasing.AcquireOptions

	// Now is the clock for ticks. Default time.Now.
	Now func() time.Time
}

func (o Options) complete(c leasing.Capabilities) (Options, error) {
	longest := c.MaxTTL - slack(c) // the bound of StartWithin, if there is a MaxTTL
	if c.MaxTTL > 0 && o.StartWithin == 0 {
		o.StartWithin = min(30*time.Minute, longest)
	}
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
	case c.MaxTTL > 0 && o.StartWithin > longest:
		return o, &leasing.InvalidError{Field: "Options.StartWithin", Value: o.StartWithin, Want: fmt.Sprintf("at most %v on %s, so that a tick's mark lasts longer", longest, c.Provider)}
	case o.Jitter >= o.StartWithin:
		return o, &leasing.InvalidError{Field: "Options.Jitter", Value: o.Jitter, Want: fmt.Sprintf("less than StartWithin, which is %v", o.StartWithin)}
	case o.Lease.WaitLimit != 0:
		return o, &leasing.InvalidError{Field: "Options.Lease.WaitLimit", Value: o.Lease.WaitLimit, Want: "0: StartWithin bounds the wait"}
	}
	if every := o.Every; every != 0 {
		o.Next = func(t time.Time) time.Time { return t.Truncate(every).Add(every) }
	}
	return o, recipe.ValidateName(o.Name, len("/tick/"+tickFormat), c)
}
