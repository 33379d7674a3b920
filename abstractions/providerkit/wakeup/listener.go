// Package wakeup delivers pushed wake-ups to waiters.
package wakeup

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Listener delivers wake-ups to the waiters of this process. The wake-ups come from the method
// Wake, and, if Connect is set, from one connection that listens for all waiters. The connection is
// opened for the first waiter, reopened whenever it fails, and closed when there have been no
// waiters for a while. Set the fields before the first use. The zero Listener delivers only the
// wake-ups from Wake.
type Listener struct {
	// Connect opens a connection that listens: each message is a key for Wake. ctx bounds only the opening.
	Connect func(ctx context.Context) (Connection, error)
	// Silence is the time without a message after which the connection is pinged.
	// Default 15s.
	Silence time.Duration

	mu      sync.Mutex
	queues  map[string][]chan struct{} // of waiters, each with a buffer of one
	count   atomic.Int64               // waiters
	loop    *loop                      // nil while no waiter needs a connection
	running providerkit.Group
	closed  bool
}

// Connection listens for the messages to this process. Its methods are called by
// one goroutine.
type Connection interface {
	// Receive returns the next message. It returns when ctx ends, and the connection stays usable.
	Receive(ctx context.Context) (message string, err error)
	// Ping returns nil once the other end has answered. A message that arrives before the answer is returned by the
	// next Receive.
	Ping(ctx context.Context) error
	Close()
}

// Wait registers a waiter under a key until ctx ends, and returns its wake-ups.
// If no connection can be made at present it fails at once, without waiting for
// the next attempt, so that the waiter polls.
func (w *Listener) Wait(ctx context.Context, key string) (abstractions.Wakeups, error) {
	ch := make(chan struct{}, 1)
	if err := w.WaitOn(ctx, key, ch); err != nil {
		return abstractions.Wakeups{}, err
	}
	return abstractions.Wakeups{C: ch}, nil
}

// WaitOn registers an existing channel, which may be in use by other Listeners. The channel has a buffer of size 1.
func (w *Listener) WaitOn(ctx context.Context, key string, ch chan struct{}) error {
	state, err := w.add(key, ch)
	if err == nil && state != nil {
		bounded, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		select {
		case <-state.settled:
			err = state.err
		case <-bounded.Done():
			err = bounded.Err()
		}
		if err != nil {
			w.remove(key, ch)
		}
	}
	if err == nil {
		providerkit.AfterFunc(ctx, func() { w.remove(key, ch) })
	}
	return err
}

func (w *Listener) add(key string, ch chan struct{}) (*state, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, abstractions.ErrClosed
	}
	if w.queues == nil {
		w.queues = make(map[string][]chan struct{})
	}
	w.queues[key] = append(w.queues[key], ch)
	w.count.Add(1)
	if w.Connect == nil {
		return nil, nil
	}
	if w.loop == nil {
		w.loop = &loop{w: w, state: &state{settled: make(chan struct{})}}
		w.loop.ctx, w.loop.stop = context.WithCancel(context.Background())
		w.running.Go(w.loop.run, nil)
	}
	return w.loop.state, nil
}

// remove ends a registration. A wake-up that was not received goes to the next waiter.
func (w *Listener) remove(key string, ch chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	queue := w.queues[key]
	if i := slices.Index(queue, ch); i >= 0 {
		queue = slices.Delete(queue, i, i+1)
		w.count.Add(-1)
	}
	w.queues[key] = queue
	if len(queue) == 0 {
		delete(w.queues, key)
	}
	select {
	case <-ch:
		w.wakeFirst(key)
	default:
	}
}

// Wake wakes the waiter that has waited longest under a key, but skips waiters
// that have not received an earlier wake-up: a waiter that is stuck must not
// block the others. Wake costs almost nothing without waiters.
func (w *Listener) Wake(key string) {
	if w.count.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeFirst(key)
}

// wakeFirst wakes the first of a queue's waiters that has no pending wake-up. Caller holds mu.
func (w *Listener) wakeFirst(key string) {
	for _, waiter := range w.queues[key] {
		select {
		case waiter <- struct{}{}:
			return
		default:
		}
	}
}

// wakeAll wakes the head of each queue, since messages may have been missed.
func (w *Listener) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.queues {
		w.wakeFirst(key)
	}
}

// Listening reports whether messages reach this process at present.
func (w *Listener) Listening() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.loop != nil && w.loop.state.isSettled() && w.loop.state.err == nil
}

// Close ends the connection, waits for its goroutine, and refuses waiters.
func (w *Listener) Close() {
	w.mu.Lock()
	w.closed = true
	if w.loop != nil {
		w.loop.stop()
	}
	w.mu.Unlock()
	w.running.Wait()
}
