// Package watch hands hints to all who wait for a key in this process.
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

// Add returns hints under a key until ctx ends. A hint that is not taken stands for
// all that follow it.
func (h *Hub) Add(ctx context.Context, key string) <-chan struct{} {
	hints := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[string]map[chan struct{}]struct{}{}
	}
	if h.all[key] == nil {
		h.all[key] = map[chan struct{}]struct{}{}
	}
	h.all[key][hints] = struct{}{}
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.all[key], hints)
		if len(h.all[key]) == 0 {
			delete(h.all, key)
		}
	})
	return hints
}

// Wake hints to all under a key.
func (h *Hub) Wake(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for hints := range h.all[key] {
		select {
		case hints <- struct{}{}:
		default:
		}
	}
}

// WakeAll hints to everybody.
func (h *Hub) WakeAll() {
	h.mu.Lock()
	keys := slices.Collect(maps.Keys(h.all))
	h.mu.Unlock()
	for _, key := range keys {
		h.Wake(key)
	}
}
