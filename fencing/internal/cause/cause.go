// Package cause says why a context ended.
package cause

import (
	"context"
	"errors"
	"fmt"
)

// Join adds why ctx ended to an error that came of it: drivers have errors of
// their own for that ("interrupted"), and database/sql has ErrTxDone.
func Join(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
