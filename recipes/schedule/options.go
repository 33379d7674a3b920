package schedule

import (
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
)

// Options describe a schedule. All processes should have the same, or as many
// timetables will be followed: ticks are told apart by their times alone.
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

	// StartWithin is how late the job may be started for a tick: because the
	// backend could not be reached, say. The next tick ends it in any case.
	// Default 30 min.
	StartWithin time.Duration
	// CatchUp makes a process that begins start the tick that is current, if
	// nobody has. Otherwise it waits for the next one.
	CatchUp bool
	// Jitter is how long after a tick a process waits at most before it asks
	// for it; how long is decided at random. It saves requests, since most
	// processes then find that another one has taken the tick. Default 1 s, or a
	// tenth of StartWithin if that is less; negative means none.
	Jitter time.Duration

	// AtLeastOnce repeats runs that did not return by themselves, instead of
	// starting each tick at most once: see the package's documentation.
	AtLeastOnce bool
	// Timeout, unless 0, is how long a run may take. Then its context ends, with
	// ErrTimeout as the cause.
	Timeout time.Duration

	// OnError is told what went wrong with a tick: the error of the job, a
	// *PanicError if it panicked; a lease that was lost, or could not be
	// released; a *SkippedError; a *MissedError. The schedule goes on. It is
	// called by Run, so nothing else happens meanwhile. Required.
	OnError func(tick time.Time, err error)

	// Lease configures the lease that the job runs under: its TTL, say, which
	// is how long a crash may delay a repetition. WaitLimit must be 0. The tick
	// is added to the Metadata, as "tick".
	Lease leasing.AcquireOptions

	// Now is the clock that ticks are read from. Default time.Now.
	Now func() time.Time
}

const (
	defaultStartWithin = 30 * time.Minute
	defaultJitter      = time.Second
	minEvery           = time.Second
)

func (o Options) withDefaults(c leasing.Capabilities) (Options, error) {
	if o.StartWithin == 0 {
		o.StartWithin = defaultStartWithin
	}
	if o.Jitter == 0 {
		o.Jitter = min(defaultJitter, o.StartWithin/10)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := o.validate(c); err != nil {
		return o, err
	}
	if every := o.Every; every != 0 {
		o.Next = func(t time.Time) time.Time { return t.Truncate(every).Add(every) }
	}
	return o, nil
}

func (o Options) validate(c leasing.Capabilities) error {
	switch {
	case o.OnError == nil:
		return &leasing.InvalidError{Field: "Options.OnError", Value: nil, Want: "a function: there is nobody else to tell"}
	case o.Next == nil && o.Every == 0:
		return &leasing.InvalidError{Field: "Options.Every", Value: o.Every, Want: "a period; or set Next"}
	case o.Next != nil && o.Every != 0:
		return &leasing.InvalidError{Field: "Options.Every", Value: o.Every, Want: "0, since Next is set"}
	case o.Next == nil && o.Every < minEvery:
		return &leasing.InvalidError{Field: "Options.Every", Value: o.Every, Want: fmt.Sprintf("at least %v; for more than that elect a leader", minEvery)}
	case o.StartWithin < 0:
		return &leasing.InvalidError{Field: "Options.StartWithin", Value: o.StartWithin, Want: "more than 0; or 0 for the default"}
	case o.Jitter >= o.StartWithin:
		return &leasing.InvalidError{Field: "Options.Jitter", Value: o.Jitter, Want: fmt.Sprintf("less than StartWithin, which is %v", o.StartWithin)}
	case o.Timeout < 0:
		return &leasing.InvalidError{Field: "Options.Timeout", Value: o.Timeout, Want: "0 for none, or more"}
	case o.Lease.WaitLimit != 0:
		return &leasing.InvalidError{Field: "Options.Lease.WaitLimit", Value: o.Lease.WaitLimit, Want: "0: how long to try is a matter of StartWithin"}
	}
	return o.validateName(c)
}

func (o Options) validateName(c leasing.Capabilities) error {
	if err := leasing.ValidateName(o.Name); err != nil {
		return err
	}
	limit := leasing.MaxNameBytes
	if c.MaxNameBytes > 0 {
		limit = min(limit, c.MaxNameBytes)
	}
	if limit -= len("/tick/" + tickFormat); len(o.Name) > limit {
		return &leasing.InvalidError{Field: "Options.Name", Value: o.Name, Want: fmt.Sprintf("at most %d bytes, since ticks have longer names", limit)}
	}
	return nil
}
