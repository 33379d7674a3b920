package leasing

import (
	"context"
	"errors"
	"runtime"

	"github.com/distributedleasing/leasing/internal/sealed"
)

// Do acquires name, waiting as Manager.Acquire does, runs fn under the lease,
// and releases it when fn has returned, or has panicked.
//
// The context that fn gets ends when the lease is lost, when the manager is
// closed, when Release is called on the lease, or when ctx ends; context.Cause
// tells which. Unless it is lost, the lease is renewed until fn has returned,
// so that nobody else gets the name while fn still cleans up: fn should return
// soon after its context ends.
//
// Do returns fn's error, joined with the *LostError if the lease was lost
// meanwhile (fn may have run unprotected, even if it returned nil), and with
// the error of the release.
//
// Do is not reentrant: a Do of a name within a Do of the same name waits for
// itself until ctx ends. The error is then a *HeldError whose ByThisManager is
// set.
func Do(ctx context.Context, m Manager, name string, fn func(ctx context.Context, lease Lease) error) error {
	return DoWith(ctx, m, name, nil, fn)
}

// DoWith is Do with options; nil means the manager's defaults.
func DoWith(ctx context.Context, m Manager, name string, options *AcquireOptions, fn func(ctx context.Context, lease Lease) error) error {
	return do(ctx, m, name, fn, func() (Lease, error) { return m.Acquire(ctx, name, options) })
}

// TryDo is DoWith that asks for the name once and does not wait, as
// Manager.TryAcquire does: the error matches ErrHeld if somebody else has it, and
// fn is then not called.
func TryDo(ctx context.Context, m Manager, name string, options *AcquireOptions, fn func(ctx context.Context, lease Lease) error) error {
	return do(ctx, m, name, fn, func() (Lease, error) { return m.TryAcquire(ctx, name, options) })
}

func do(ctx context.Context, m Manager, name string, fn func(ctx context.Context, lease Lease) error, acquire func() (Lease, error)) (err error) {
	if m == nil {
		return &Error{Op: "do", Name: name, Err: &InvalidError{Field: "manager", Value: nil, Want: "a Manager"}}
	}
	if fn == nil {
		return &Error{Op: "do", Name: name, Err: &InvalidError{Field: "fn", Value: nil, Want: "a function"}}
	}
	ctx = orBackground(ctx)
	acquired, err := acquire()
	if err != nil {
		return err
	}
	l := sealed.Self(acquired).(*lease) // also of a wrapper that embeds one
	work, cancel := context.WithCancelCause(l.Context())
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() {
		runtime.KeepAlive(acquired)
		stop()
		released, lost := l.Release(ctx), (*LostError)(nil)
		if released != nil && !(errors.As(released, &lost) && errors.Is(err, error(lost))) {
			err = errors.Join(err, released)
		}
	}()
	return fn(work, leaseInDo{l})
}

// leaseInDo is the lease as the function in a Do sees it: it can end the work,
// but the release has to wait for the function to return.
type leaseInDo struct{ *lease }

func (l leaseInDo) Release(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase < releasing {
		l.endWork(ErrReleased)
	}
	return nil
}
