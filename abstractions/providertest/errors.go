package providertest

import (
	"context"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
)

// kinds are the sentinels. An error matches exactly one of these. (A throttled error
// is also unavailable.)
var kinds = []error{
	abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased, abstractions.ErrStale, abstractions.ErrInvalid,
	abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrClosed, abstractions.ErrUnsupported, abstractions.ErrUnavailable,
}

// is requires that err is of that kind and of no other kind.
func (e *env) is(err, kind error, what ...any) {
	if err == nil {
		e.Fail(fmt.Sprintf("want an error that matches %q: the request was granted", kind), what...)
	}
	for _, other := range kinds {
		if errors.Is(err, other) != (other == kind) {
			e.Fail(fmt.Sprintf("want an error that matches %q and no other sentinel, not: %v", kind, err), what...)
		}
	}
}

// held requires that err is a *HeldError about another claim's lease.
func (e *env) held(err error, what ...any) *abstractions.HeldError {
	e.is(err, abstractions.ErrHeld, what...)
	var held *abstractions.HeldError
	e.ErrorAs(err, &held, what...)
	return held
}

// lost requires that err is a *LostError, for one of the reasons if any are given.
func (e *env) lost(err error, reasons ...abstractions.LostReason) {
	e.is(err, abstractions.ErrLost)
	var lost *abstractions.LostError
	e.ErrorAs(err, &lost)
	if len(reasons) > 0 {
		e.Contains(reasons, lost.Reason, "LostError.Reason")
	}
}

// invalid requires that err is an *InvalidError that names the field and the wanted value.
func (e *env) invalid(err error, what ...any) {
	e.is(err, abstractions.ErrInvalid, what...)
	var invalid *abstractions.InvalidError
	e.ErrorAs(err, &invalid, what...)
	e.NotEmpty(invalid.Field, what...)
	e.NotEmpty(invalid.Want, what...)
}

// ended requires that err reports the end of a context, and leaves the outcome at the
// backend open.
func (e *env) ended(err, cause error, what ...any) {
	e.ErrorIs(err, cause, what...)
	e.unknown(err, what...)
}

// unknown requires that err leaves open whether the request was applied, or says
// that the backend was too busy for the request.
func (e *env) unknown(err error, what ...any) {
	e.Error(err, what...)
	for _, kind := range kinds {
		if kind != abstractions.ErrUnavailable && errors.Is(err, kind) {
			e.Fail(fmt.Sprintf("the provider had no answer of this kind: %v", err), what...)
		}
	}
	if !errors.Is(err, abstractions.ErrUnavailable) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		e.Fail(fmt.Sprintf("want ErrUnavailable or the context's error, not: %v", err), what...)
	}
}
