package sqllease

import "context"

// poolLimit lets only so many requests use a pool at a time. Renewals don't pass
// through it: one connection is theirs, so that acquires that wait for row
// locks, or a burst of them, can't make leases run out. nil lets all pass.
type poolLimit chan struct{}

// newPoolLimit is for a pool of so many connections, 0 for no bound.
func newPoolLimit(connections int) poolLimit {
	if connections < 2 {
		return nil
	}
	return make(poolLimit, connections-1)
}

// do runs a function within the limit.
func (l poolLimit) do(ctx context.Context, f func() error) error {
	if l == nil {
		return f()
	}
	select {
	case l <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l }()
	return f()
}
