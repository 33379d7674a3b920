package semaphore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
)

// Semaphore hands out permits. It is safe for concurrent use. It owns nothing
// that needs closing: it is idle while nobody waits, and ends with its manager.
type Semaphore struct {
	manager leasing.Manager
	options Options
	lease   leasing.AcquireOptions // for each slot: without a wait limit

	mu     sync.Mutex
	slots  slots
	queue  []*ticket // those who wait, first come first
	search *search   // on their behalf; nil while nobody waits
	// closed is set when the manager is found to be closed.
	closed bool
}

// New returns a semaphore. Nothing is sent.
func New(manager leasing.Manager, options Options) (*Semaphore, error) {
	if manager == nil {
		return nil, &leasing.InvalidError{Field: "manager", Value: nil, Want: "a leasing.Manager"}
	}
	options, err := options.withDefaults(manager.Capabilities())
	if err != nil {
		return nil, err
	}
	s := &Semaphore{manager: manager, options: options, lease: options.Lease, slots: newSlots(options.Permits)}
	s.lease.WaitLimit = 0
	return s, nil
}

// Acquire waits for a permit until it has one, ctx ends, or
// Options.Lease.WaitLimit has passed, and always asks at least once. Release
// the permit when the work is over.
//
// If it gives up, the error matches the end of the wait (the cause of ctx) and
// what stood in the way: leasing.ErrHeld, with a *FullError, or the backend's
// last error. A wait limit that ends it is that alone. It ends early with an
// error of Manager.Acquire that waiting can't help.
func (s *Semaphore) Acquire(ctx context.Context) (*Permit, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s.wait(ctx, s.options.Lease.WaitLimit)
}

// TryAcquire asks for slots that this process does not hold, each once, until
// it gets one; at most for Options.Tries of them. If none is free the error is
// a *FullError, which matches leasing.ErrHeld. That is also, with no request at
// all, what it returns while others of this process wait: it does not pass
// them. Any other answer of the backend ends it too.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Permit, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	if s.search != nil && s.search.settled {
		err := s.obstacle(s.search.last)
		s.mu.Unlock()
		return nil, err
	}
	s.mu.Unlock()
	return s.try(ctx)
}

// try asks for slots one after the other.
func (s *Semaphore) try(ctx context.Context) (*Permit, error) {
	var last error
	for range min(s.options.Tries, s.options.Permits) {
		s.mu.Lock()
		slot, ok := s.slots.next(time.Now())
		s.mu.Unlock()
		if !ok {
			break
		}
		lease, err := s.manager.TryAcquire(ctx, s.options.slotName(slot), &s.lease)
		s.mu.Lock()
		if err == nil {
			s.slots.hold(slot)
		} else {
			s.slots.put(slot)
		}
		s.dispatch()
		s.mu.Unlock()
		if err == nil {
			return s.permit(ctx, slot, lease), nil
		}
		if last = err; !errors.Is(err, leasing.ErrHeld) {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return nil, s.obstacle(last)
}

// Do acquires a permit as Acquire does, runs fn, and releases the permit when
// fn has returned, or has panicked.
//
// The context that fn gets ends when the permit is lost, when the manager is
// closed, when Release is called on the permit, or when ctx ends;
// context.Cause tells which. Unless the permit is lost it is renewed until fn
// has returned, so that nobody gets in too early: fn should return soon after
// its context ends.
//
// Do returns fn's error, joined with the *leasing.LostError if the permit was
// lost meanwhile, and with the error of the release.
func (s *Semaphore) Do(ctx context.Context, fn func(ctx context.Context, permit *Permit) error) error {
	return do(ctx, s.Acquire, fn)
}

// TryDo is Do that does not wait: see TryAcquire.
func (s *Semaphore) TryDo(ctx context.Context, fn func(ctx context.Context, permit *Permit) error) error {
	return do(ctx, s.TryAcquire, fn)
}

func do(ctx context.Context, acquire func(context.Context) (*Permit, error), fn func(ctx context.Context, permit *Permit) error) (err error) {
	if fn == nil {
		return &leasing.InvalidError{Field: "fn", Value: nil, Want: "a function"}
	}
	permit, err := acquire(ctx)
	if err != nil {
		return err
	}
	work, cancel := context.WithCancelCause(permit.Context())
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() {
		stop()
		released, lost := permit.Release(ctx), (*leasing.LostError)(nil)
		if released != nil && !(errors.As(released, &lost) && errors.Is(err, error(lost))) {
			err = errors.Join(err, released)
		}
	}()
	return fn(work, permit.inDo())
}
