package sequence

import (
	"context"
	"errors"

	"github.com/distributedleasing/leasing"
)

// Do leases a number, runs work under the number's context, and closes the number in every case:
//
//   - after Commit or Release in work, Do does nothing more;
//   - an error from work or a panic in work releases the number, which makes a gap;
//   - a Commit that came too late, or got no answer, is settled: see Settle. If Settle commits the payload, Do
//     returns nil. Otherwise Do returns the *LateCommitError, whose Settled says where the payload is;
//   - if work returns nil without Commit or Release, Do releases the number and returns
//     ErrNotCommitted.
//
// The context passed to work ends when the lease is lost, when the stream is closed, or when ctx
// ends; context.Cause says which.
func (s *Stream[Tx]) Do(ctx context.Context, op Operation, work func(ctx context.Context, n *Number[Tx]) error) (err error) {
	if work == nil {
		return invalid("work", nil, "a function")
	}
	n, err := s.Lease(ctx, op)
	if err != nil {
		return err
	}
	return n.do(ctx, work)
}

// DoAll runs Do for operations, one after the other, until one fails, and returns the number of successes. The transaction that
// commits a number also leases the next operation's number, if that is cheaper for the store. So a writer with many operations needs
// one transaction for each, where Do needs two.
//
// Work should return soon after its Commit, since the next number is leased from then on. If work fails after its Commit, or
// ctx ends at that moment, the next number becomes a gap.
func (s *Stream[Tx]) DoAll(ctx context.Context, ops []Operation, work func(ctx context.Context, n *Number[Tx]) error) (done int, err error) {
	if work == nil {
		return 0, invalid("work", nil, "a function")
	}
	var n *Number[Tx]
	defer func() {
		if next := n.takeNext(); next != nil {
			_ = next.Release(ctx)
		}
	}()
	for i := range ops {
		if ctx.Err() != nil {
			return i, context.Cause(ctx)
		}
		if n = n.takeNext(); n == nil {
			if n, err = s.Lease(ctx, ops[i]); err != nil {
				return i, err
			}
		}
		if i+1 < len(ops) {
			n.leaseNext = func(joint *jointLease) (*Number[Tx], error) {
				return s.lease(ctx, ops[i+1], joint, (*leasing.Manager).TryAcquire)
			}
		}
		if err = n.do(ctx, work); err != nil {
			return i, err
		}
	}
	return len(ops), nil
}

// do runs work, and closes the number.
func (n *Number[Tx]) do(ctx context.Context, work func(ctx context.Context, n *Number[Tx]) error) (err error) {
	inner, cancel := context.WithCancelCause(n.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	returned := false
	defer func() {
		if !returned { // work has panicked: the panic propagates
			_ = n.Release(ctx)
		}
	}()
	err = work(inner, n)
	returned = true
	return n.finish(ctx, err)
}

// ErrNotCommitted is returned by Do if its function returned nil without Commit or Release.
var ErrNotCommitted = errors.New("the function has neither committed nor released its number")

// finish closes the number after Do's function has returned.
func (n *Number[Tx]) finish(ctx context.Context, err error) error {
	n.mu.Lock()
	tried, unknown, closed := n.unsettled, n.unknown, n.closed
	n.mu.Unlock()
	if closed {
		return err
	}
	late := (*LateCommitError)(nil)
	if tried != nil && (unknown || errors.Is(err, ErrLate) || n.lease.Err() != nil) {
		n.abandon(ctx)
		settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.stream.requestTime())
		settled, e, settleErr := n.stream.Settle(settling, *tried, n.write)
		cancel()
		if settleErr != nil && n.stream.options.Journal != nil {
			if settleErr = n.stream.options.Journal.append(n.stream.name, *tried); settleErr == nil {
				settled, e = SettledJournaled, Entry{Stream: n.stream.name, Seq: tried.Seq, Op: tried.Op, State: Leased, Token: tried.Token}
			}
		}
		switch {
		case settleErr != nil:
			return errors.Join(err, settleErr)
		case settled == SettledCommitted:
			return nil
		case errors.As(err, &late):
			late.Settled, late.Entry = settled, e.Bare()
			return err
		}
		return errors.Join(err, &LateCommitError{Op: "commit", Entry: e.Bare(), Settled: settled})
	}
	released := n.Release(ctx)
	if err == nil {
		err = ErrNotCommitted
	}
	return errors.Join(err, released)
}
