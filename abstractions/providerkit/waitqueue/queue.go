// Package waitqueue is the client side of waiter queues that a backend keeps: it manages the waiters of one
// process.
//
// The backend has one queue per name, for all processes. A registered waiter whose acquire is refused joins it. When the name
// becomes free it is reserved for [Grace] for the head of the queue, and only the head's process is woken. The head must then
// acquire, since a reservation is no grant. A head that is dead or hangs loses its reservation and its place. Other waiters are
// told in advance when their turn comes if all before them hang. A [Queue] knows which claims of this process wait, and receives
// their turns.
package waitqueue

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Grace is how long a free name is reserved for the waiter whose turn it is.
const Grace = 200 * time.Millisecond

// leaveTimeout bounds the request that takes a waiter from the queue.
const leaveTimeout = 2 * time.Second

// Queue are this process' claims that wait, each for a name that the backend knows by a K. Make one with New. It is safe for
// concurrent use.
type Queue[K any] struct {
	Channel string              // on which this process is woken
	Wakeups providerkit.Wakeups // by claim
	dequeue func(ctx context.Context, key K, id string)

	mu      sync.Mutex
	byID    map[string]*waiter[K]
	some    atomic.Bool // byID is not empty
	closed  bool
	leaving providerkit.Group
}

// waiter is a registration.
type waiter[K any] struct {
	key    K
	queued bool        // an acquire has joined, so it may be in the queue, and has not got the name
	later  *time.Timer // hints when the reservation for the one before it ends
}

// New makes a queue for the claims of this process. dequeue has a claim leave the queue that the backend has.
func New[K any](channel string, dequeue func(ctx context.Context, key K, id string)) *Queue[K] {
	return &Queue[K]{Channel: channel, dequeue: dequeue, byID: map[string]*waiter[K]{}}
}

// Register returns the hints for a claim once this process listens. The claim joins the queue with its next acquire.
func (q *Queue[K]) Register(ctx context.Context, key K, id string) (abstractions.Wakeups, error) {
	hints := make(chan struct{}, 1)
	if err := q.RegisterOn(ctx, key, id, hints); err != nil {
		return abstractions.Wakeups{}, err
	}
	return abstractions.Wakeups{C: hints}, nil
}

// RegisterOn is Register for a claim whose hints have a channel already, since it waits in another queue too: see
// [providerkit.Wakeups.WaitOn].
func (q *Queue[K]) RegisterOn(ctx context.Context, key K, id string, hints chan struct{}) error {
	if err := q.Wakeups.WaitOn(ctx, id, hints); err != nil {
		return err
	}
	w := &waiter[K]{key: key}
	q.mu.Lock()
	defer q.mu.Unlock()
	if before := q.byID[id]; before != nil {
		w.queued = before.queued // its place is the new registration's now
	}
	q.byID[id] = w
	q.some.Store(true)
	providerkit.AfterFunc(ctx, func() { q.leave(id, w) })
	return nil
}

// Waits says whether any claim is registered.
func (q *Queue[K]) Waits() bool { return q.some.Load() }

// Join returns what a claim waits for, if it is registered and this process listens: its acquire may put it into the queue.
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

// Served notes that a claim has got its name.
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

// Waiting returns the claims that wait, and for what.
func (q *Queue[K]) Waiting() (ids []string, keys []K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, w := range q.byID {
		ids, keys = append(ids, id), append(keys, w.key)
	}
	return ids, keys
}

// leave ends a registration, and takes the claim from the queue if it may be there.
func (q *Queue[K]) leave(id string, w *waiter[K]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := q.byID[id] == w // it was not registered again
	if last {
		delete(q.byID, id)
		q.some.Store(len(q.byID) > 0)
	}
	if w.later != nil {
		w.later.Stop()
	}
	if last && w.queued {
		q.handOn(w.key, id)
	}
}

// handOn takes a claim from the queue; if it was its turn, it is the next one's then. If that fails, it loses its place when
// its turn comes. Caller holds mu.
func (q *Queue[K]) handOn(key K, id string) {
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

// Due takes word that a claim is to ask after so long, and reports whether that is now. One that has left, but has a key, hands
// its turn on: its acquire was under way, and put it into the queue after it had been taken out.
func (q *Queue[K]) Due(id string, after time.Duration, key *K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.byID[id]
	switch {
	case w == nil && after == 0 && key != nil:
		q.handOn(*key, id)
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

// Close ends the connection and waits for those who are leaving.
func (q *Queue[K]) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.Wakeups.Close()
	q.leaving.Wait()
}
