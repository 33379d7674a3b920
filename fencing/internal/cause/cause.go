// Package cause says why a context ended.
package cause

import (
	"context"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing"
)

// Join adds why ctx ended to an error that came of it: drivers have errors of
// their own for that ("interrupted"), and database/sql has ErrTxDone. A cause that says
// that nothing was written is about something else, and is text alone.
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
