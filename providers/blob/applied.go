package bloblease

import (
	"errors"
	"fmt"
	"slices"

	"github.com/distributedleasing/leasing/abstractions"
)

// half is the error of a call that failed after a write of its own had been applied.
// By themselves "throttled", "denied", "not set up" and the like say that nothing
// was done, which is true of the request that failed and not of the call: so all that
// is left of them is that the outcome is unknown, and the client library's error.
func half(err error) error {
	if err == nil || !slices.ContainsFunc(promises, func(p error) bool { return errors.Is(err, p) }) {
		return err
	}
	return &halfError{err}
}

func halfIf(wrote bool, err error) error {
	if wrote {
		return half(err)
	}
	return err
}

// promises are the errors that say that nothing was applied: see leasing.Provider.
var promises = []error{
	abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased, abstractions.ErrStale, abstractions.ErrInvalid,
	abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrThrottled, abstractions.ErrClosed,
}

// halfError shows an error and hides what it promises.
type halfError struct{ err error }

func (e *halfError) Error() string {
	return fmt.Sprintf("%v: begun, and not finished: %v", abstractions.ErrUnavailable, e.err)
}

func (e *halfError) Is(target error) bool {
	return target == abstractions.ErrUnavailable || !slices.Contains(promises, target) && errors.Is(e.err, target)
}

// As finds the client library's errors, and none of the types that carry a promise.
func (e *halfError) As(target any) bool {
	switch target.(type) {
	case **abstractions.ThrottledError, **abstractions.InvalidError, **abstractions.HeldError, **abstractions.LostError,
		**containerError, **movedError, **foreignError:
		return false
	}
	return errors.As(e.err, target)
}
