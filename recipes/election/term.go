package election

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/distributedleasing/leasing"
)

// term is a lease that the candidate held, from its election to its release.
type term struct {
	lease leasing.Lease
	// ended is why the context of OnElected had ended when it returned; nil if
	// it returned of its own accord.
	ended error
	// failure is the error of OnElected, unless it only says that its context
	// had ended.
	failure error
	// release is the error of the release: a *leasing.LostError in its chain if
	// the lease was lost.
	release error
	lasted  time.Duration
}

// campaign stands for election, term after term. ctx is the one that Resign ends.
func (c *Candidate) campaign(ctx context.Context) error {
	for failures := 0; ; {
		term, err := c.serve(ctx)
		if term == nil {
			return c.outcome(ctx, nil, err)
		}
		if c.options.OnResigned != nil {
			c.options.OnResigned(term.lease, term.reason())
		}
		switch {
		case ctx.Err() != nil:
			return c.outcome(ctx, term, nil)
		case term.failure == nil || term.ended != nil:
			failures = 0
		case !c.options.StandAgain:
			return join(term.failure, term.release)
		case term.lasted > c.options.MaxPause:
			failures = 1
		default:
			failures++
		}
		if !sleep(ctx, c.options.pause(failures, rand.Float64())) {
			return c.outcome(ctx, nil, nil)
		}
	}
}

// serve waits to be elected and serves a term. Without a term the error says
// why there was none.
func (c *Candidate) serve(ctx context.Context) (served *term, err error) {
	err = leasing.DoWith(ctx, c.manager, c.options.Name, &c.options.Lease, func(ctx context.Context, lease leasing.Lease) error {
		served = &term{lease: lease}
		c.lead(lease)
		began := time.Now()
		err := c.options.OnElected(ctx, lease)
		served.lasted = time.Since(began)
		served.ended = context.Cause(ctx)
		if served.ended == nil || !merely(err, served.ended) {
			served.failure = err
		}
		return nil // so that Do's error is that of the release
	})
	if served == nil {
		return nil, err
	}
	served.release = err
	return served, nil
}

// merely reports whether err says no more than that a context ended, and why.
func merely(err, cause error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, cause)
}

// reason is what OnResigned hears.
func (t *term) reason() error {
	ended := t.ended
	if ended != nil && errors.Is(t.release, ended) {
		ended = nil // the release tells of the same loss
	}
	return join(ended, t.failure, t.release)
}

// outcome is the error of Run when its context has ended, after a term or
// while it waited (err).
func (c *Candidate) outcome(ctx context.Context, last *term, err error) error {
	if ctx.Err() == nil {
		return err // waiting can't help
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrResigned) {
		cause = nil
	}
	if last == nil {
		return cause
	}
	return join(cause, last.failure, last.release)
}

// join is errors.Join that leaves a single error as it is.
func join(errs ...error) error {
	var only error
	count := 0
	for _, err := range errs {
		if err != nil {
			only, count = err, count+1
		}
	}
	if count <= 1 {
		return only
	}
	return errors.Join(errs...)
}

// sleep pauses for d, or returns false when ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
