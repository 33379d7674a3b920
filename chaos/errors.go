package chaos

import (
	"context"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// ErrInjected is matched by every injected error, so that a test can
// distinguish injected from real errors. The code under test must not test for ErrInjected.
var ErrInjected = errors.New("injected by chaos")

// InjectedError names the rule that caused an error. A *leasing.Error wraps it, as it wraps an
// error from a backend's client library.
type InjectedError struct {
	Rule string
	Kind FaultKind
	Err  error // the error that a real failure would match, such as leasing.ErrUnavailable
}

func (e *InjectedError) Error() string {
	return fmt.Sprintf("%v (%v: rule %q, %s)", e.Err, ErrInjected, e.Rule, e.Kind)
}

func (e *InjectedError) Is(target error) bool { return target == ErrInjected }
func (e *InjectedError) Unwrap() error        { return e.Err }

// injectedError makes the error that a fault returns for an operation.
func (p *Provider) injectedError(o operation, f *occurrence, err error) error {
	return p.wrap(o, &InjectedError{Rule: f.rule.Name, Kind: f.kind(), Err: err})
}

// wrap adds the failed operation to an error.
func (p *Provider) wrap(o operation, err error) error {
	op := o.op
	if op == OpRenewBatch {
		op = OpRenew
	}
	return &abstractions.Error{Op: string(op), Provider: p.caps.Provider, Name: o.name, Err: err, Fingerprint: abstractions.FingerprintOf(o.id)}
}

// failure returns the error that the caller gets after the fault's delay.
func (f Fault) failure() error {
	switch {
	case f.Kind == FaultThrottle:
		return &abstractions.ThrottledError{RetryAfter: f.RetryAfter}
	case f.Failure == FailureDenied:
		return abstractions.ErrDenied
	case f.Failure == FailureNotSetUp:
		return abstractions.ErrNotSetUp
	}
	return abstractions.ErrUnavailable
}

// interrupted returns the error of an operation whose caller left, or whose wrapper was closed,
// while a fault delayed the operation.
func (p *Provider) interrupted(ctx context.Context, applied bool) error {
	switch {
	case ctx.Err() != nil:
		// The cause may be the error of another lease, so only its text is included (T88).
		return fmt.Errorf("%w: %w", abstractions.ErrUnavailable, providerkit.WithText(context.Cause(ctx).Error(), ctx.Err()))
	case applied:
		return fmt.Errorf("%w: closed before the answer came", abstractions.ErrUnavailable)
	}
	return abstractions.ErrClosed
}
