package engine

import (
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
)

// asUnavailable makes an error match abstractions.ErrUnavailable, by wrapping if necessary.
func asUnavailable(err error) error {
	if errors.Is(err, abstractions.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", abstractions.ErrUnavailable, err)
}

// isPermanent reports whether the same request gets the same answer until a person changes something.
func isPermanent(err error) bool {
	for _, sentinel := range [...]error{abstractions.ErrReleased, abstractions.ErrInvalid, abstractions.ErrNotSetUp, abstractions.ErrClosed, abstractions.ErrUnsupported} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// isDenied reports whether the backend has refused the caller. Most refusals of this kind are temporary: a password is
// rotated, a role assignment has not arrived yet, a server has just started.
func isDenied(err error) bool { return errors.Is(err, abstractions.ErrDenied) }
