package memlease

import (
	"context"
	"slices"

	"github.com/distributedleasing/leasing/abstractions"
)

// waiter is one registration.
type waiter struct {
	hints chan struct{} // buffer of one
}

// Wait registers a waiter: see leasing.Waiter. A release or a break hints to
// the one that has waited longest; an expiry hints to nobody, since whoever
// waits was told the remaining time.
func (p *Provider) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	if err := p.usable(ctx); err != nil {
		return abstractions.Wakeups{}, err
	}
	if err := req.Validate(capabilities); err != nil {
		return abstractions.Wakeups{}, err
	}
	w := &waiter{hints: make(chan struct{}, 1)}
	s := p.shardOf(req.Name)
	s.enqueue(req.Name, w)
	context.AfterFunc(ctx, func() { s.dequeue(req.Name, w) })
	return abstractions.Wakeups{C: w.hints}, nil
}

func (s *shard) enqueue(name string, w *waiter) {
	s.Lock()
	defer s.Unlock()
	if s.waiters == nil {
		s.waiters = make(map[string][]*waiter)
	}
	s.waiters[name] = append(s.waiters[name], w)
}

// dequeue removes a waiter. A hint that it has not taken goes to the next one.
func (s *shard) dequeue(name string, w *waiter) {
	s.Lock()
	defer s.Unlock()
	queue := s.waiters[name]
	if i := slices.Index(queue, w); i >= 0 {
		queue = slices.Delete(queue, i, i+1)
	}
	s.waiters[name] = queue
	if len(queue) == 0 {
		delete(s.waiters, name)
	}
	select {
	case <-w.hints:
		s.wake(name)
	default:
	}
}

// wake hints to the waiter at the head. The caller holds the lock.
func (s *shard) wake(name string) {
	if queue := s.waiters[name]; len(queue) > 0 {
		select {
		case queue[0].hints <- struct{}{}:
		default: // it has a hint to follow already
		}
	}
}
