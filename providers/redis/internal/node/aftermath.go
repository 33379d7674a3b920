package node

import "sync"

// Aftermath owns what goes on after a call has returned: answers that came too
// late, of nodes that have to be told the outcome. Each is bounded.
type Aftermath struct {
	mu     sync.Mutex
	closed bool
	All    sync.WaitGroup
}

// Start runs a function beside the caller, unless close was called.
func (a *Aftermath) Start(run func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.All.Go(run)
	return true
}

// Close waits for what was started.
func (a *Aftermath) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.All.Wait()
}
