package sqllease

import (
	"context"
	"sync"
)

// turn is a lock whose waiters are served in the order in which they came, the
// urgent ones first. SQLite has one writer at a time; goroutines queue here,
// at no cost, rather than at the lock of the file, where waiting means polling.
type turn struct {
	mu     sync.Mutex
	taken  bool
	urgent []chan struct{}
	others []chan struct{}
}

func (t *turn) take(ctx context.Context, urgent bool) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	called := make(chan struct{})
	queue := &t.others
	if urgent {
		queue = &t.urgent
	}
	*queue = append(*queue, called)
	t.mu.Unlock()
	select {
	case <-called:
		return nil
	case <-ctx.Done():
	}
	if !t.forget(queue, called) {
		t.pass() // it was called in the same moment
	}
	return ctx.Err()
}

func (t *turn) forget(queue *[]chan struct{}, called chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, waiter := range *queue {
		if waiter == called {
			*queue = append((*queue)[:i], (*queue)[i+1:]...)
			return true
		}
	}
	return false
}

// pass gives the lock to the next one.
func (t *turn) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, queue := range [...]*[]chan struct{}{&t.urgent, &t.others} {
		if len(*queue) > 0 {
			close((*queue)[0])
			(*queue)[0] = nil
			*queue = (*queue)[1:]
			return
		}
	}
	t.taken = false
}
