package election

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing"
)

// Options describe a candidate.
type Options struct {
	// Name of the lease that the candidates compete for. Required.
	Name string

	// OnElected is the leader's work; the term ends when it returns. It is
	// called once for each term, never twice at a time, and should return soon
	// after ctx has ended. Required.
	//
	// To step down and stand again later, return nil. An error it returns of
	// its own accord, while ctx has not ended, ends Run: see StandAgain. If it
	// panics the lease is released, and the panic goes on up through Run.
	OnElected func(ctx context.Context, lease leasing.Lease) error

	// OnResigned, unless nil, is called after each term, once OnElected has
	// returned and the lease is released. The reason is nil if OnElected
	// returned nil of its own accord. Otherwise it matches, with errors.Is,
	// each of these that happened: the error of OnElected; leasing.ErrLost;
	// ErrResigned; the cause of the context given to Run; and the error of the
	// release, after which the name stays taken until the TTL has passed.
	OnResigned func(lease leasing.Lease, reason error)

	// Lease configures the lease: its TTL, say, or Metadata to tell followers
	// where the leader can be reached. WaitLimit must be 0: a candidate waits
	// until it is elected.
	Lease leasing.AcquireOptions

	// StandAgain lets a candidate stand again after OnElected has returned an
	// error, after a pause that grows. It needs OnResigned, which is then what
	// hears of the error.
	StandAgain bool

	// Pause is how long a candidate stays out after a term, so that others get
	// their turn; up to half of it is taken off at random. After errors it
	// doubles up to MaxPause, until a term has lasted longer than that.
	// Defaults 1 s and 1 min.
	Pause, MaxPause time.Duration
}

const (
	defaultPause    = time.Second
	defaultMaxPause = time.Minute
)

func (o Options) withDefaults() (Options, error) {
	if o.Pause == 0 {
		o.Pause = defaultPause
	}
	if o.MaxPause == 0 {
		o.MaxPause = max(defaultMaxPause, o.Pause)
	}
	return o, o.validate()
}

func (o Options) validate() error {
	switch {
	case o.OnElected == nil:
		return &leasing.InvalidError{Field: "Options.OnElected", Value: nil, Want: "a function"}
	case o.StandAgain && o.OnResigned == nil:
		return &leasing.InvalidError{Field: "Options.OnResigned", Value: nil, Want: "a function: with StandAgain it alone hears of errors"}
	case o.Lease.WaitLimit != 0:
		return &leasing.InvalidError{Field: "Options.Lease.WaitLimit", Value: o.Lease.WaitLimit, Want: "0: a candidate waits until it is elected"}
	case o.Pause < 0:
		return &leasing.InvalidError{Field: "Options.Pause", Value: o.Pause, Want: "0 (the default) or more"}
	case o.MaxPause < o.Pause:
		return &leasing.InvalidError{Field: "Options.MaxPause", Value: o.MaxPause, Want: "at least Pause, which is " + o.Pause.String()}
	}
	return leasing.ValidateName(o.Name)
}

// pause returns how long to stay out after so many errors in a row. random is
// from 0 up to 1.
func (o Options) pause(failures int, random float64) time.Duration {
	pause := o.Pause
	for range failures {
		if pause >= o.MaxPause/2 {
			pause = o.MaxPause
			break
		}
		pause *= 2
	}
	return pause - time.Duration(random*float64(pause)/2)
}
