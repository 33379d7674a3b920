package sqllease

import "context"

// lane lets only so many requests use a pool at a time. Renewals don't pass
// through it: one connection is theirs, so that acquires that wait for row
// locks, or a burst of them, can't make leases run out. nil lets all pass.
type lane chan struct{}

// newLane makes the lane for a pool of so many connections, 0 for no bound.
func newLane(connections int) lane {
	if connections < 2 {
		return nil
	}
	return make(lane, connections-1)
}

// pass runs do in the lane.
func (l lane) pass(ctx context.Context, do func() error) error {
	if l == nil {
		return do()
	}
	select {
	case l <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l }()
	return do()
}
