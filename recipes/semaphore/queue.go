package semaphore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
)

// limitGrace is the time for which a caller waits for a first answer after its wait limit has
// passed.
const limitGrace = time.Second

// waiter is one call of Acquire in the queue.
type waiter struct {
	ctx      context.Context // requests for this waiter carry its values
	watching <-chan struct{} // closed after the probes failed
	done     chan struct{}   // closed when the waiter has an answer and has left the queue
	answer   answer
}

// answer is a slot's lease, or an error.
type answer struct {
	slot  int
	lease *leasing.Lease
	err   error
}

// join adds a waiter to the queue. Locks mu.
func (s *Semaphore) join(ctx context.Context) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &waiter{ctx: ctx, done: make(chan struct{})}
	s.queue = append(s.queue, t)
	s.dispatch()
	t.watching = s.search.watching
	return t
}

// leave returns the answer to a waiter. A waiter without an answer leaves the queue, and gets an
// error. Locks mu.
func (s *Semaphore) leave(ctx context.Context, t *waiter) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.queue, t); i >= 0 {
		t.answer.err = s.waitError(ctx)
		s.queue = slices.Delete(s.queue, i, i+1)
		s.dispatch()
	}
	return t.answer
}

// waitError returns the error for a wait that was ended by ctx or by the wait limit. Caller holds mu.
func (s *Semaphore) waitError(ctx context.Context) error {
	end, obstacle := context.Cause(ctx), error(nil)
	if s.search.isWatching() {
		obstacle = s.obstacle(s.search.last)
	}
	switch {
	case end == nil && obstacle == nil:
		return fmt.Errorf("semaphore %q: %w: no answer within the wait limit", s.options.Name, leasing.ErrUnavailable)
	case end == nil:
		return obstacle
	case obstacle == nil:
		return fmt.Errorf("semaphore %q: %w", s.options.Name, end)
	}
	return fmt.Errorf("semaphore %q: %w; until then: %w", s.options.Name, end, obstacle)
}

// deliver gives a lease to the first waiter. Without waiters it releases the lease, and the
// manager's Close waits for the release. Caller holds mu.
func (s *Semaphore) deliver(a answer) {
	if len(s.queue) > 0 {
		s.answerFirst(a)
	} else {
		go func() {
			_ = a.lease.Release(context.Background()) // it retries, until the TTL has passed
			s.returnSlot(a.slot)
		}()
	}
	s.dispatch()
}

// answerFirst answers the first waiter. Caller holds mu.
func (s *Semaphore) answerFirst(a answer) {
	t := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	t.answer = a
	close(t.done)
}

// failAll ends all waits. Caller holds mu.
func (s *Semaphore) failAll(err error) {
	for len(s.queue) > 0 {
		s.answerFirst(answer{err: err})
	}
}

// failIfClosed ends all waits if the manager is closed. While this process holds all permits, no request is in flight that would
// report the end of the manager. Locks mu.
func (s *Semaphore) failIfClosed() {
	if !recipe.Closed(s.manager) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failAll(fmt.Errorf("semaphore %q: %w", s.options.Name, leasing.ErrClosed))
	s.dispatch()
}
