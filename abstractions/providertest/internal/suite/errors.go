package suite

import (
	"context"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
)

// Kinds are the sentinels. An error matches exactly one of these. (A throttled error
// is also unavailable.)
var Kinds = []error{
	abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased, abstractions.ErrStale, abstractions.ErrInvalid,
	abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrClosed, abstractions.ErrUnsupported, abstractions.ErrUnavailable,
}

// Is requires that err is of that kind and of no other kind.
func (e *Env) Is(err, kind error, what ...any) {
	if err == nil {
		e.Fail(fmt.Sprintf("want an error that matches %q: the request was granted", kind), what...)
	}
	for _, other := range Kinds {
		if errors.Is(err, other) != (other == kind) {
			e.Fail(fmt.Sprintf("want an error that matches %q and no other sentinel, not: %v", kind, err), what...)
		}
	}
}

// Held requires that err is a *HeldError about another claim's lease.
func (e *Env) Held(err error, what ...any) *abstractions.HeldError {
	e.Is(err, abstractions.ErrHeld, what...)
	var held *abstractions.HeldError
	e.ErrorAs(err, &held, what...)
	return held
}

// Lost requires that err is a *LostError, for one of the reasons if any are given.
func (e *Env) Lost(err error, reasons ...abstractions.LostReason) {
	e.Is(err, abstractions.ErrLost)
	var lost *abstractions.LostError
	e.ErrorAs(err, &lost)
	if len(reasons) > 0 {
		e.Contains(reasons, lost.Reason, "LostError.Reason")
	}
}

// Invalid requires that err is an *InvalidError that names the field and the wanted value.
func (e *Env) Invalid(err error, what ...any) {
	e.Is(err, abstractions.ErrInvalid, what...)
	var invalid *abstractions.InvalidError
	e.ErrorAs(err, &invalid, what...)
	e.NotEmpty(invalid.Field, what...)
	e.NotEmpty(invalid.Want, what...)
}

// Ended requires that err reports the end of a context, and that the outcome at the
// backend is unknown.
func (e *Env) Ended(err, cause error, what ...any) {
	e.ErrorIs(err, cause, what...)
	e.Unknown(err, what...)
}

// Unknown requires an error that does not say whether the request was applied,
// or that says that the backend was too busy.
func (e *Env) Unknown(err error, what ...any) {
	e.Error(err, what...)
	for _, kind := range Kinds {
		if kind != abstractions.ErrUnavailable && errors.Is(err, kind) {
			e.Fail(fmt.Sprintf("the provider had no answer of this kind: %v", err), what...)
		}
	}
	if !errors.Is(err, abstractions.ErrUnavailable) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		e.Fail(fmt.Sprintf("want ErrUnavailable or the context's error, not: %v", err), what...)
	}
}

// OneOf requires that err is nil, matches one of the kinds, or leaves the outcome unknown.
func (e *Env) OneOf(err error, kinds ...error) {
	if err == nil || errors.Is(err, abstractions.ErrUnavailable) {
		return
	}
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			e.Is(err, kind)
			return
		}
	}
	e.NoError(err)
}
