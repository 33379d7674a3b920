package election

import (
	"context"
	"math"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Options describe a candidate.
type Options struct {
	// Name is the name of the lease that the candidates compete for. Required.
	Name string

	// OnElected does the leader's work; the term ends when it returns. It is
	// called once per term, never concurrently, and should return soon after
	// ctx has ended. Required.
	//
	// To step down and stand again later, return nil. An error it returns of
	// its own accord, while ctx has not ended, ends Run: see StandAgain. If it
	// panics the lease is released, and the panic propagates through Run.
	OnElected func(ctx context.Context, lease *leasing.Lease) error

	// OnResigned, unless nil, is called after each term, once OnElected has
	// returned and the lease is released. The reason is nil if OnElected
	// returned nil of its own accord. Otherwise it matches, with errors.Is,
	// each of these that happened: the error of OnElected; leasing.ErrLost;
	// ErrResigned; the cause of the context given to Run; and the error of the
	// release, after which the name stays held until the TTL has passed.
	OnResigned func(lease *leasing.Lease, reason error)

	// Lease configures the lease: its TTL, for example, or Metadata with the
	// leader's address for followers. WaitLimit must be 0: a candidate waits
	// until it is elected.
	Lease leasing.AcquireOptions

	// StandAgain lets a candidate stand again after OnElected has returned an
	// error, after a pause that grows. It requires OnResigned, which gets the error.
	StandAgain bool

	// Pause is the time that a candidate waits after a term before it stands
	// again, so that others get a turn. Up to half of the time is subtracted at
	// random. After errors it doubles up to MaxPause, until a term has lasted
	// longer than MaxPause. Default 1 s.
	Pause time.Duration `option:"default=1s"`
	// MaxPause bounds Pause after errors, and must not be less than Pause. Default 1
	// min, or Pause if that is longer.
	MaxPause time.Duration
}

func (o Options) complete() (Options, error) {
	if err := providerkit.Complete(&o); err != nil {
		return o, err
	}
	if o.MaxPause == 0 {
		o.MaxPause = max(time.Minute, o.Pause)
	}
	switch {
	case o.OnElected == nil:
		return o, &leasing.InvalidError{Field: "Options.OnElected", Value: nil, Want: "a function"}
	case o.StandAgain && o.OnResigned == nil:
		return o, &leasing.InvalidError{Field: "Options.OnResigned", Value: nil, Want: "a function: with StandAgain errors go nowhere else"}
	case o.Lease.WaitLimit != 0:
		return o, &leasing.InvalidError{Field: "Options.Lease.WaitLimit", Value: o.Lease.WaitLimit, Want: "0: a candidate waits until it is elected"}
	case o.MaxPause < o.Pause:
		return o, &leasing.InvalidError{Field: "Options.MaxPause", Value: o.MaxPause, Want: "at least Pause, which is " + o.Pause.String()}
	}
	return o, leasing.ValidateName(o.Name)
}

// pause returns the pause after the given number of consecutive errors. random is from 0 up to 1.
func (o Options) pause(failures int, random float64) time.Duration {
	pause := min(float64(o.MaxPause), math.Ldexp(float64(o.Pause), failures))
	return time.Duration(pause - random*pause/2)
}
