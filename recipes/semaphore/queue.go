package semaphore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
)

// grace is how long the one look that is owed to a caller with a short wait
// limit may take beyond it.
const grace = time.Second

// ticket is a place in the queue.
type ticket struct {
	ctx context.Context // its values go along with requests on its behalf
	// looked is closed once the search has looked for a free slot in vain.
	looked chan struct{}
	// served gets the one thing that the ticket waits for. Whoever sends it
	// has taken the ticket out of the queue.
	served chan outcome
}

// outcome is a slot's lease, or an error that waiting can't help.
type outcome struct {
	slot  int
	lease leasing.Lease
	err   error
}

// wait queues for a permit. A limit of 0 is none.
func (s *Semaphore) wait(ctx context.Context, limit time.Duration) (*Permit, error) {
	t, err := s.join(ctx)
	if err != nil {
		return nil, err
	}
	var passed <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case o := <-t.served:
		return s.settle(ctx, o)
	case <-ctx.Done():
		return nil, s.cancelled(ctx, t)
	case <-passed:
		return s.lastLook(ctx, t)
	}
}

// lastLook is for a ticket whose limit has passed: it has a right to one look,
// even if that takes longer.
func (s *Semaphore) lastLook(ctx context.Context, t *ticket) (*Permit, error) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case o := <-t.served:
		return s.settle(ctx, o)
	case <-ctx.Done():
		return nil, s.cancelled(ctx, t)
	case <-t.looked:
	case <-timer.C:
	}
	o, obstacle := s.leave(t)
	switch {
	case o != (outcome{}):
		return s.settle(ctx, o)
	case obstacle == nil:
		obstacle = fmt.Errorf("semaphore %q: %w: no answer within the wait limit", s.options.Name, leasing.ErrUnavailable)
	}
	return nil, obstacle
}

// cancelled gives up a ticket whose context has ended.
func (s *Semaphore) cancelled(ctx context.Context, t *ticket) error {
	o, obstacle := s.leave(t)
	if o.lease != nil { // served in this very moment
		go s.handOn(o)
	}
	return s.gaveUp(ctx, obstacle)
}

func (s *Semaphore) settle(ctx context.Context, o outcome) (*Permit, error) {
	if o.err != nil {
		return nil, o.err
	}
	return s.permit(ctx, o.slot, o.lease), nil
}

func (s *Semaphore) join(ctx context.Context) (*ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, s.closedError()
	}
	t := &ticket{ctx: ctx, looked: make(chan struct{}), served: make(chan outcome, 1)}
	if s.search != nil && s.search.settled {
		close(t.looked)
	}
	s.queue = append(s.queue, t)
	s.dispatch()
	return t, nil
}

// leave gives a place up. It returns what the ticket was served with after all,
// or what stood in its way, nil if nothing is known of that yet.
func (s *Semaphore) leave(t *ticket) (o outcome, obstacle error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.queue, t)
	if i < 0 {
		return <-t.served, nil
	}
	if t.hasLooked() {
		obstacle = s.obstacle(s.search.last)
	}
	s.queue = slices.Delete(s.queue, i, i+1)
	s.dispatch()
	return outcome{}, obstacle
}

func (t *ticket) hasLooked() bool {
	select {
	case <-t.looked:
		return true
	default:
		return false
	}
}

// handOn gives a lease that nobody uses to whoever has waited longest, or
// releases it. The manager's Close waits for that.
func (s *Semaphore) handOn(o outcome) {
	s.mu.Lock()
	if s.serve(o) {
		s.dispatch()
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	_ = o.lease.Release(context.Background()) // it retries; what it can't do, the TTL does
	s.returned(o.slot)
}

// serve gives an outcome to whoever has waited longest. Caller holds mu.
func (s *Semaphore) serve(o outcome) bool {
	if len(s.queue) == 0 {
		return false
	}
	t := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	t.served <- o
	return true
}

// fail ends all waits.
func (s *Semaphore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failAll(err)
}

// close ends all waits, and those to come.
func (s *Semaphore) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.failAll(s.closedError())
}

// failAll needs mu.
func (s *Semaphore) failAll(err error) {
	for s.serve(outcome{err: err}) {
	}
	s.dispatch()
}
