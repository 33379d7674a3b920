// Package watch sends wake-ups to all waiters for a key in this process.
package watch

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Hub is a set of waiters by key. The zero Hub is empty. It is safe for concurrent use.
type Hub struct {
	mu  sync.Mutex
	all map[string]map[chan struct{}]struct{}
}

// Add returns a channel of wake-ups for a key until ctx ends. While a wake-up is pending, no other
// is added.
func (h *Hub) Add(ctx context.Context, key string) <-chan struct{} {
	wakeups := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[string]map[chan struct{}]struct{}{}
	}
	if h.all[key] == nil {
		h.all[key] = map[chan struct{}]struct{}{}
	}
	h.all[key][wakeups] = struct{}{}
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.all[key], wakeups)
		if len(h.all[key]) == 0 {
			delete(h.all, key)
		}
	})
	return wakeups
}

// Wake wakes all waiters for a key.
func (h *Hub) Wake(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for wakeups := range h.all[key] {
		select {
		case wakeups <- struct{}{}:
		default:
		}
	}
}

// WakeAll wakes all waiters for all keys.
func (h *Hub) WakeAll() {
	h.mu.Lock()
	keys := slices.Collect(maps.Keys(h.all))
	h.mu.Unlock()
	for _, key := range keys {
		h.Wake(key)
	}
}
