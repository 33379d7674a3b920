package cosmoslease

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/distributedleasing/leasing/abstractions"
)

// interrupted is the error of a call whose context has ended, whose outcome is
// unknown. A cause that the caller has given is kept, unless it is an error of
// package leasing: that would be taken for what the service has said of this lease.
func interrupted(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause != ctx.Err() && said(cause) { //nolint:errorlint // the very same
		return fmt.Errorf("%w: %w: %v", abstractions.ErrUnavailable, ctx.Err(), cause)
	}
	return failure(cause)
}

// cut is the error of a request whose context has ended. Package net/http reports
// the context's cause, which is the caller's own: here it is text alone.
func cut(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %v", ctx.Err(), err)
}

// sentError is the error of a write that may have arrived. azcosmos 1.5.0 takes
// errors of the kernel's such as ETIMEDOUT and EHOSTUNREACH, which a connection that
// is established has as well, for those of one that could not be, and sends the write
// again (cosmos_client_retry_policy.go, classifyNetworkError). So they are hidden
// from it: only the context's errors can be found in its chain.
type sentError struct{ err error }

func (e sentError) Error() string { return e.err.Error() }

// Is finds the context's errors.
func (e sentError) Is(target error) bool {
	return (target == context.Canceled || target == context.DeadlineExceeded) && errors.Is(e.err, target)
}

// notSent reports whether an error is of a connection that was never established.
func notSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
