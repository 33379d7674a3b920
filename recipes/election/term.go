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
	// cause is nil if OnElected returned of its own accord. Otherwise OnElected's context had
	// ended, and cause is that context's cause.
	cause error
	// workErr is OnElected's error, or nil if that error only reports the end of the context.
	workErr error
	// releaseErr is the error from the release. Its chain has a *leasing.LostError if the lease was
	// lost.
	releaseErr error
	lasted     time.Duration
}

// stand stands for election, term after term. Resign ends ctx.
func (c *Candidate) stand(ctx context.Context) error {
	for failures := 0; ; {
		term, err := c.serve(ctx)
		switch {
		case term == nil && ctx.Err() == nil:
			return err // waiting can't help
		case term == nil:
			return runError(ctx, nil, nil)
		case c.options.OnResigned != nil:
			c.options.OnResigned(term.lease, recipe.Join(term.cause, term.workErr, term.releaseErr))
		}
		switch {
		case ctx.Err() != nil:
			return runError(ctx, term.workErr, term.releaseErr)
		case term.workErr == nil || term.cause != nil:
			failures = 0
		case !c.options.StandAgain:
			return recipe.Join(term.workErr, term.releaseErr)
		case term.lasted > c.options.MaxPause:
			failures = 1
		default:
			failures++
		}
		recipe.Sleep(ctx, c.options.pause(failures, rand.Float64()))
		if ctx.Err() != nil {
			return runError(ctx, nil, nil)
		}
	}
}

// runError returns the error of Run after the end of its context: the cause, unless that is
// ErrResigned, and the errors of the last term.
func runError(ctx context.Context, failure, release error) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrResigned) {
		cause = nil
	}
	return recipe.Join(cause, failure, release)
}

// serve waits to be elected and serves a term. If no term begins, it returns the reason as an
// error.
func (c *Candidate) serve(ctx context.Context) (served *term, err error) {
	err = c.manager.With(c.options.Lease).Do(ctx, c.options.Name, func(ctx context.Context, lease *leasing.Lease) error {
		served = &term{lease: lease}
		c.lease.Store(lease)
		began := time.Now()
		err := c.options.OnElected(ctx, lease)
		served.lasted = time.Since(began)
		served.cause = context.Cause(ctx)
		if served.cause == nil || !errors.Is(err, context.Canceled) && !errors.Is(err, served.cause) {
			served.workErr = err
		}
		return nil // so that Do returns only the errors of the lease
	})
	if served == nil {
		return nil, err
	}
	served.releaseErr = err
	return served, nil
}
