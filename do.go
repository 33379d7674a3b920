package leasing

import (
	"context"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
)

// Do acquires name, waiting as Acquire does, runs fn under the lease,
// and releases it when fn has returned, or has panicked.
//
// The context that fn gets ends when the lease is lost, when the manager is
// closed, when Release is called on the lease, or when ctx ends; context.Cause
// says which. Unless it is lost, the lease is renewed until fn has returned,
// so that no other process gets the name while fn still cleans up: fn should return
// soon after its context ends.
//
// Do returns fn's error, joined with the *LostError if the lease was lost
// meanwhile (fn may have run unprotected, even if it returned nil), and with
// the error of the release.
//
// Do is not reentrant: a Do of a name within a Do of the same name waits for
// itself until ctx ends. The error is then a *HeldError whose ByThisManager is
// set.
func (m *Manager) Do(ctx context.Context, name string, fn func(ctx context.Context, lease *Lease) error) error {
	return do(ctx, name, fn, m.Acquire)
}

// TryDo is like Do, but makes a single attempt and does not wait. If the name is not free, the
// error matches ErrHeld and fn is not called.
func (m *Manager) TryDo(ctx context.Context, name string, fn func(ctx context.Context, lease *Lease) error) error {
	return do(ctx, name, fn, m.TryAcquire)
}

func do(ctx context.Context, name string, fn func(ctx context.Context, lease *Lease) error, acquire func(context.Context, string) (*Lease, error)) (err error) {
	if fn == nil {
		return &Error{Op: "do", Name: name, Err: &InvalidError{Field: "fn", Value: nil, Want: "a function"}}
	}
	if ctx == nil {
		ctx = context.Background()
	}
	lease, err := acquire(ctx, name)
	if err != nil {
		return err
	}
	leaseInside := leaseInDo{Lease: lease}
	leaseInside.ctx, leaseInside.end = context.WithCancelCause(lease.Context())
	defer leaseInside.end(nil)
	work, cancel := context.WithCancelCause(leaseInside.ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() {
		stop()
		released, lost := lease.Release(ctx), (*LostError)(nil)
		if released != nil && !(errors.As(released, &lost) && errors.Is(err, error(lost))) {
			err = errors.Join(err, released)
		}
	}()
	return fn(work, &Lease{&leaseInside})
}

// leaseInDo is the lease that the function in a Do receives. Its Release ends the work, but the
// lease is not released before the function has returned.
type leaseInDo struct {
	abstractions.Lease
	ctx context.Context // until the end of the lease, or until Release
	end context.CancelCauseFunc
}

func (l *leaseInDo) Context() context.Context { return l.ctx }

func (l *leaseInDo) Err() error {
	if err := l.Lease.Err(); err != nil || l.ctx.Err() == nil {
		return err
	}
	return context.Cause(l.ctx)
}

func (l *leaseInDo) Format(s fmt.State, _ rune) {
	fmt.Fprint(s, l.Lease)
	if l.Lease.Err() == nil && l.ctx.Err() != nil {
		fmt.Fprint(s, ", to be released")
	}
}

func (l *leaseInDo) Release(context.Context) error {
	l.end(ErrReleased)
	return nil
}

func (l *leaseInDo) HandOver(context.Context) (Handover, error) {
	return Handover{}, &Error{Op: "hand over", Name: l.Name(), Err: &InvalidError{Field: "lease", Value: "of a Do", Want: "one that Acquire returned: inside Do the function still works"}}
}
