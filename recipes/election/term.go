package election

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
)

// term is a lease that the candidate held, from its election to its release.
type term struct {
	lease *leasing.Lease
	// ended is the cause with which the context of OnElected had ended when OnElected returned, or
	// nil if OnElected returned of its own accord.
	ended error
	// failure is the error of OnElected, unless it only says that its context
	// had ended.
	failure error
	// release is the error of the release: a *leasing.LostError in its chain if
	// the lease was lost.
	release error
	lasted  time.Duration
}

// stand stands for election, term after term. Resign ends ctx.
func (c *Candidate) stand(ctx context.Context) error {
	for failures := 0; ; {
		term, err := c.serve(ctx)
		switch {
		case term == nil && ctx.Err() == nil:
			return err // waiting can't help
		case term == nil:
			return ended(ctx, nil, nil)
		case c.options.OnResigned != nil:
			c.options.OnResigned(term.lease, recipe.Join(term.ended, term.failure, term.release))
		}
		switch {
		case ctx.Err() != nil:
			return ended(ctx, term.failure, term.release)
		case term.failure == nil || term.ended != nil:
			failures = 0
		case !c.options.StandAgain:
			return recipe.Join(term.failure, term.release)
		case term.lasted > c.options.MaxPause:
			failures = 1
		default:
			failures++
		}
		recipe.Sleep(ctx, c.options.pause(failures, rand.Float64()))
		if ctx.Err() != nil {
			return ended(ctx, nil, nil)
		}
	}
}

// ended returns the error of Run after the end of its context: the cause, unless that is
// ErrResigned, and the errors of the last term.
func ended(ctx context.Context, failure, release error) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrResigned) {
		cause = nil
	}
	return recipe.Join(cause, failure, release)
}

// serve waits to be elected and serves a term. Without a term it returns the reason as an error.
func (c *Candidate) serve(ctx context.Context) (served *term, err error) {
	err = c.manager.With(c.options.Lease).Do(ctx, c.options.Name, func(ctx context.Context, lease *leasing.Lease) error {
		served = &term{lease: lease}
		c.lease.Store(lease)
		began := time.Now()
		err := c.options.OnElected(ctx, lease)
		served.lasted = time.Since(began)
		served.ended = context.Cause(ctx)
		if served.ended == nil || !errors.Is(err, context.Canceled) && !errors.Is(err, served.ended) {
			served.failure = err
		}
		return nil // so that the error of Do is that of the release
	})
	if served == nil {
		return nil, err
	}
	served.release = err
	return served, nil
}
