package providertest

import (
	"context"
	"errors"
	"fmt"

	leasing "github.com/distributedleasing/leasing/abstractions"
)

// kinds are the sentinels, of which an error matches one. (A throttled one is
// unavailable too.)
var kinds = []error{
	leasing.ErrHeld, leasing.ErrLost, leasing.ErrReleased, leasing.ErrStale, leasing.ErrInvalid,
	leasing.ErrDenied, leasing.ErrSetup, leasing.ErrClosed, leasing.ErrUnsupported, leasing.ErrUnavailable,
}

// is says that err is of that kind and of no other.
func (e *env) is(err, kind error, what ...any) {
	e.t.Helper()
	e.Error(err, what...)
	for _, other := range kinds {
		if errors.Is(err, other) != (other == kind) {
			e.Fail(fmt.Sprintf("want an error that matches %q and no other sentinel, not: %v", kind, err), what...)
		}
	}
}

// held says that err is a *HeldError about somebody else's lease.
func (e *env) held(err error, what ...any) *leasing.HeldError {
	e.t.Helper()
	e.is(err, leasing.ErrHeld, what...)
	var held *leasing.HeldError
	e.ErrorAs(err, &held, what...)
	return held
}

// lost says that err is a *LostError, for one of the reasons if any are given.
func (e *env) lost(err error, reasons ...leasing.LostReason) {
	e.t.Helper()
	e.is(err, leasing.ErrLost)
	var lost *leasing.LostError
	e.ErrorAs(err, &lost)
	if len(reasons) > 0 {
		e.Contains(reasons, lost.Reason, "LostError.Reason")
	}
}

// invalid says that err is an *InvalidError that says what is wrong.
func (e *env) invalid(err error, what ...any) {
	e.t.Helper()
	e.is(err, leasing.ErrInvalid, what...)
	var invalid *leasing.InvalidError
	e.ErrorAs(err, &invalid, what...)
	e.NotEmpty(invalid.Field, what...)
	e.NotEmpty(invalid.Want, what...)
}

// ended says that err tells the end of a context, and nothing that is certain
// to have happened at the backend.
func (e *env) ended(err, cause error, what ...any) {
	e.t.Helper()
	e.ErrorIs(err, cause, what...)
	e.unknown(err, what...)
}

// unknown says that err leaves open whether the request was applied, or says
// that the backend was too busy for it.
func (e *env) unknown(err error, what ...any) {
	e.t.Helper()
	e.Error(err, what...)
	for _, kind := range kinds {
		if kind != leasing.ErrUnavailable && errors.Is(err, kind) {
			e.Fail(fmt.Sprintf("nobody has told the provider that: %v", err), what...)
		}
	}
	if !errors.Is(err, leasing.ErrUnavailable) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		e.Fail(fmt.Sprintf("want ErrUnavailable or the context's error, not: %v", err), what...)
	}
}
