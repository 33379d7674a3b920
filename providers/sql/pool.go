package sqllease

import "context"

// semaphore lets only so many in at a time, in the order in which they came. nil
// lets all in.
type semaphore chan struct{}

// poolLimit is how many requests may use a pool of so many connections at a time; 0
// stands for no bound. Renewals don't pass through it: one connection is theirs, so
// that acquires that wait for row locks, or a burst of them, can't make leases run out.
func poolLimit(connections int) semaphore {
	if connections < 2 {
		return nil
	}
	return make(semaphore, connections-1)
}

// enter waits for a place, which leave gives back.
func (s semaphore) enter(ctx context.Context) error {
	if s == nil {
		return nil
	}
	select {
	case s <- struct{}{}:
		return nil
	default: // a context may make its channel only now
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s semaphore) leave() {
	if s != nil {
		<-s
	}
}
