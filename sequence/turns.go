package sequence

import (
	"context"
	"sync"
)

// turns limits each operation to one lease at a time in this process. The store can't enforce this limit, since it treats a
// second request as a retry. The zero value is ready to use.
type turns struct {
	mu   sync.Mutex
	over map[string]chan struct{} // by operation: closed when its lease has ended
}

// take waits until no lease of an operation is held or requested in this process; if wait is false, it returns
// errNotIssued instead. endTurn ends the turn, at its first call.
func (t *turns) take(ctx context.Context, op string, wait bool) (endTurn func(), err error) {
	for {
		over, taken := t.begin(op)
		switch {
		case !taken:
			return sync.OnceFunc(func() { t.end(op) }), nil
		case !wait:
			return nil, errNotIssued
		}
		select {
		case <-over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// begin starts a turn. If the operation already has a turn, taken is true, and over is closed when that turn ends.
func (t *turns) begin(op string) (over <-chan struct{}, taken bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if over, taken = t.over[op]; taken {
		return over, true
	}
	if t.over == nil {
		t.over = map[string]chan struct{}{}
	}
	t.over[op] = make(chan struct{})
	return nil, false
}

func (t *turns) end(op string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.over[op])
	delete(t.over, op)
}
