// Package waitqueue is the client side of waiter queues that a backend keeps: it manages the waiters of one
// process.
//
// The backend has one queue per name, for all processes. A registered waiter whose acquire is refused joins the queue. When the
// name becomes free, the backend reserves it for the head of the queue for a time of [Grace], and wakes only the head's process.
// The head must then acquire, since a reservation is not a grant. A head that is dead or hangs loses its reservation and its
// place. Other waiters learn the time of their turn in advance, in case all waiters ahead of them hang. A [Queue] keeps the
// waiting claims of this process, and receives their turns.
package waitqueue

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/wakeup"
)

// Grace is the time for which a free name is reserved for the head waiter.
const Grace = 200 * time.Millisecond

// leaveTimeout bounds the request that removes a waiter from the queue.
const leaveTimeout = 2 * time.Second

// Queue holds this process's waiting claims, each with a key K for the name in the backend. Make one with New. It is safe
// for concurrent use.
type Queue[K any] struct {
	Channel string          // on which this process is woken
	Wakeups wakeup.Listener // by claim
	dequeue func(ctx context.Context, key K, id string)

	mu       sync.Mutex
	byID     map[string]*waiter[K]
	nonEmpty atomic.Bool // byID is not empty
	closed   bool
	leaving  providerkit.Group
}

// waiter is a registration.
type waiter[K any] struct {
	key    K
	queued bool        // set by Join, reset by Served: the claim may be in the queue
	later  *time.Timer // wakes the waiter when the reservation for its predecessor ends
}

// New makes a queue for the claims of this process. dequeue removes a claim from the backend's queue.
func New[K any](channel string, dequeue func(ctx context.Context, key K, id string)) *Queue[K] {
	return &Queue[K]{Channel: channel, dequeue: dequeue, byID: map[string]*waiter[K]{}}
}

// Register returns the wake-ups for a claim after this process has begun to listen. The claim joins the queue with
// its next acquire.
func (q *Queue[K]) Register(ctx context.Context, key K, id string) (abstractions.Wakeups, error) {
	wakeups := make(chan struct{}, 1)
	if err := q.RegisterOn(ctx, key, id, wakeups); err != nil {
		return abstractions.Wakeups{}, err
	}
	return abstractions.Wakeups{C: wakeups}, nil
}

// RegisterOn is Register for a claim that already has a channel for its wake-ups, since it also waits in another
// queue: see [wakeup.Listener.WaitOn].
func (q *Queue[K]) RegisterOn(ctx context.Context, key K, id string, wakeups chan struct{}) error {
	if err := q.Wakeups.WaitOn(ctx, id, wakeups); err != nil {
		return err
	}
	w := &waiter[K]{key: key}
	q.mu.Lock()
	defer q.mu.Unlock()
	if before := q.byID[id]; before != nil {
		w.queued = before.queued // the new registration keeps the claim's place
	}
	q.byID[id] = w
	q.nonEmpty.Store(true)
	providerkit.AfterFunc(ctx, func() { q.leave(id, w) })
	return nil
}

// Waits reports whether any claim is registered.
func (q *Queue[K]) Waits() bool { return q.nonEmpty.Load() }

// Join returns the key for which a claim waits, if it is registered and this process listens. The claim's acquire may then
// put the claim into the queue.
func (q *Queue[K]) Join(id string) (key K, ok bool) {
	if !q.Waits() || !q.Wakeups.Listening() {
		return key, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.byID[id]
	if w == nil {
		return key, false
	}
	w.queued = true
	return w.key, true
}

// Served records that a claim has acquired its name.
func (q *Queue[K]) Served(id string) {
	if !q.Waits() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.byID[id]; w != nil {
		w.queued = false
	}
}

// Waiting returns the waiting claims and their keys.
func (q *Queue[K]) Waiting() (ids []string, keys []K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, w := range q.byID {
		ids, keys = append(ids, id), append(keys, w.key)
	}
	return ids, keys
}

// leave ends a registration, and removes the claim from the queue if it may be queued.
func (q *Queue[K]) leave(id string, w *waiter[K]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := q.byID[id] == w // the claim has no later registration
	if last {
		delete(q.byID, id)
		q.nonEmpty.Store(len(q.byID) > 0)
	}
	if w.later != nil {
		w.later.Stop()
	}
	if last && w.queued {
		q.startDequeue(w.key, id)
	}
}

// startDequeue begins to remove a claim from the queue. If the claim was at the head, the turn passes to the next claim. If the
// request fails, the claim loses its place when its turn comes. Caller holds mu.
func (q *Queue[K]) startDequeue(key K, id string) {
	if q.closed {
		return
	}
	q.leaving.Go(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		q.dequeue(ctx, key, id)
		return nil
	}, nil)
}

// Due handles the notification that a claim must send its acquire after the given time, and reports whether it must do so
// now. If the claim has left and key is set, the turn passes to the next claim: an acquire that was still in flight has
// put the claim back into the queue after its removal.
func (q *Queue[K]) Due(id string, after time.Duration, key *K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.byID[id]
	switch {
	case w == nil && after == 0 && key != nil:
		q.startDequeue(*key, id)
	case w == nil:
	case after == 0:
		return true
	default:
		if w.later != nil {
			w.later.Stop()
		}
		w.later = providerkit.AfterTime(after, func() { q.Wakeups.Wake(id) })
	}
	return false
}

// Close ends the connection and waits for the claims that are leaving.
func (q *Queue[K]) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.Wakeups.Close()
	q.leaving.Wait()
}
