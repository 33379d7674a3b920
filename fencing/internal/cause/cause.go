// Package cause adds the cause of a context's end to errors.
package cause

import (
	"context"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing"
)

// Join adds the cause of ctx to an error that the end of ctx has led to: drivers return
// errors of their own ("interrupted"), and database/sql returns ErrTxDone. A cause that
// matches ErrStale or ErrInvalid is about another request, so only its text is added.
func Join(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil || errors.Is(err, cause):
		return err
	case errors.Is(cause, leasing.ErrStale), errors.Is(cause, leasing.ErrInvalid):
		return fmt.Errorf("%w: %v: %w", ctx.Err(), cause, err)
	default:
		return fmt.Errorf("%w: %w", cause, err)
	}
}
