package semaphore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
)

// Semaphore hands out permits. It is safe for concurrent use. It needs no
// Close: it is idle while there are no waiters, and ends with its manager.
type Semaphore struct {
	manager      *leasing.Manager
	options      Options
	lease        leasing.AcquireOptions // for each slot: without a wait limit
	watchedSlots int                    // the constant watchedSlots, unless a test sets it

	mu sync.Mutex
	// free lists the slots that this process neither holds nor requests. The slot that was
	// requested least recently is at the front. The initial order differs from process to process.
	free []int
	held int // slots that this process holds, or does not request for a while
	// handOverSince maps a slot to the time of the first of its consecutive hand-overs.
	handOverSince map[int]time.Time
	queue         []*waiter // the waiters, first come, first served
	search        *search   // on behalf of the waiters; nil without waiters
}

// New returns a semaphore. It sends no request.
func New(manager *leasing.Manager, options Options) (*Semaphore, error) {
	if manager == nil {
		return nil, &leasing.InvalidError{Field: "manager", Value: nil, Want: "a leasing.Manager"}
	}
	options.Lease = options.Lease.Over(manager.AcquireOptions())
	if err := options.validate(manager.Capabilities()); err != nil {
		return nil, err
	}
	s := &Semaphore{manager: manager, options: options, lease: options.Lease, watchedSlots: watchedSlots, free: rand.Perm(options.Permits), handOverSince: map[int]time.Time{}}
	s.lease.WaitLimit = 0
	return s, nil
}

// Acquire waits for a permit until it has one, ctx ends, or
// Options.Lease.WaitLimit has passed, and always sends at least one request.
// Release the permit when the work is over.
//
// If Acquire fails, the error matches the end of the wait (the cause of ctx) and the obstacle: leasing.ErrHeld, with a
// *FullError, or the backend's last error. If the wait limit ends it, the error is the obstacle alone. An error from
// Manager.Acquire that waiting can't fix ends the wait early.
func (s *Semaphore) Acquire(ctx context.Context) (*Permit, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t := s.join(ctx)
	s.failIfClosed()
	var limit <-chan time.Time // nil: none
	if s.options.Lease.WaitLimit > 0 {
		limit = time.After(s.options.Lease.WaitLimit)
	}
	select {
	case <-t.done:
	case <-ctx.Done():
	case <-limit: // but the call waits for a first answer, for up to limitGrace more
		select {
		case <-t.done:
		case <-ctx.Done():
		case <-t.watching:
		case <-time.After(limitGrace):
		}
	}
	answer := s.leave(ctx, t)
	if answer.err != nil {
		return nil, answer.err
	}
	return s.newPermit(ctx, answer.slot, answer.lease), nil
}

// TryAcquire tries slots that this process does not hold, each once, until it acquires a permit. It tries at
// most 32 slots, so with more permits it may miss a free slot. If all tried slots are held, the error is a
// *FullError, which matches leasing.ErrHeld. If other calls in this process are waiting because they found no free slot, it
// returns that error without a request, since it does not overtake waiters. Any other error from the backend also ends the call.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Permit, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var last error
	for range min(maxTries, s.options.Permits) {
		slot, refused := s.beginTry(last)
		if refused != nil {
			return nil, refused
		}
		lease, err := s.trySlot(ctx, slot)
		if err == nil {
			return s.newPermit(ctx, slot, lease), nil
		}
		if last = err; !errors.Is(err, leasing.ErrHeld) {
			break
		}
	}
	return nil, s.obstacle(last)
}

// errPanicked is the answer to a request in which the application's code panicked.
var errPanicked = errors.New("semaphore: the request panicked")

// trySlot sends TryAcquire's request for a slot that beginTry has taken.
func (s *Semaphore) trySlot(ctx context.Context, slot int) (lease *leasing.Lease, err error) {
	err = errPanicked
	defer func() { s.endTry(slot, err) }()
	return s.manager.With(s.lease).TryAcquire(ctx, s.options.slotName(slot))
}

// beginTry takes a slot for TryAcquire's request. refused is set if no slot is free, or, before
// TryAcquire's first request, if waiters have found no free slot. Locks mu.
func (s *Semaphore) beginTry(last error) (slot int, refused error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last == nil && s.search != nil && s.search.isWatching() {
		return 0, s.obstacle(s.search.last)
	}
	slot, ok := s.takeSlot()
	if !ok {
		return 0, s.obstacle(last)
	}
	return slot, nil
}

// endTry records the answer to TryAcquire's request. Locks mu.
func (s *Semaphore) endTry(slot int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.held++
	} else {
		s.putSlot(slot)
	}
	s.dispatch()
}

// takeSlot removes a slot from free, so that the caller can request the slot. Caller holds mu.
func (s *Semaphore) takeSlot() (slot int, ok bool) {
	if len(s.free) == 0 {
		return 0, false
	}
	slot, s.free = s.free[0], s.free[1:]
	return slot, true
}

// putSlot returns a slot whose request failed or that is no longer held. This ends the slot's
// consecutive hand-overs. Caller holds mu.
func (s *Semaphore) putSlot(slot int) {
	delete(s.handOverSince, slot)
	s.free = append(s.free, slot)
}

// Do acquires a permit like Acquire, runs fn, and releases the permit when fn has returned, or has
// panicked.
//
// The context that fn gets ends when the permit is lost, when the manager is
// closed, when Release is called on the permit, or when ctx ends;
// context.Cause says which. Unless the permit is lost it is renewed until fn
// has returned, so that no other holder enters too early: fn should return soon
// after its context ends.
//
// Do returns fn's error, joined with the *leasing.LostError if the permit was
// lost, and with the error from the release.
func (s *Semaphore) Do(ctx context.Context, fn func(ctx context.Context, permit *Permit) error) error {
	return do(ctx, s.Acquire, fn)
}

// TryDo is like Do, but does not wait: see TryAcquire.
func (s *Semaphore) TryDo(ctx context.Context, fn func(ctx context.Context, permit *Permit) error) error {
	return do(ctx, s.TryAcquire, fn)
}

func do(ctx context.Context, acquire func(context.Context) (*Permit, error), fn func(ctx context.Context, permit *Permit) error) error {
	if fn == nil {
		return &leasing.InvalidError{Field: "fn", Value: nil, Want: "a function"}
	}
	permit, err := acquire(ctx)
	if err != nil {
		return err
	}
	inside := *permit
	inside.inDo = true
	work := func(ctx context.Context) error { return fn(ctx, &inside) }
	return recipe.Do(ctx, permit.Context(), work, func() []error { return []error{permit.Release(ctx)} })
}

// FullError says that no permit was free. It matches leasing.ErrHeld.
type FullError struct {
	Name    string // of the semaphore
	Permits int
	// Err, unless nil, is the last answer about one of the slots: it wraps a *leasing.HeldError
	// with the holder of that slot.
	Err error
}

func (e *FullError) Error() string {
	text := fmt.Sprintf("semaphore %q: none of %d permits is free", e.Name, e.Permits)
	if e.Err != nil {
		text += "; one of them: " + e.Err.Error()
	}
	return text
}

// Is makes the error match leasing.ErrHeld, even if this process itself holds all permits and no request was sent.
func (e *FullError) Is(target error) bool { return target == leasing.ErrHeld }
func (e *FullError) Unwrap() error        { return e.Err }

// obstacle returns the error for a permit that could not be acquired. last is the last answer.
func (s *Semaphore) obstacle(last error) error {
	if last == nil || errors.Is(last, leasing.ErrHeld) {
		return &FullError{Name: s.options.Name, Permits: s.options.Permits, Err: last}
	}
	return last
}
