// Package waitqueue is the part of a process in the queues that Redis has of those who wait for
// a name: it knows which claims of this process wait, and listens for their turns.
package waitqueue

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
)

// Queue are this process' claims that wait at a node. In Redis each name has a
// queue of those who wait for it, of all processes (scripts/waiting.lua): an
// acquire that is refused joins it, a release wakes its head alone and reserves
// the name for it. Each process listens on one channel for all of its waiters.
//
// A waiter whose process has died, or who has left without a word, loses its
// place when its turn comes.
type Queue struct {
	client  redis.UniversalClient
	channel string
	hints   providerkit.Wakeups // by claim
	dequeue func(ctx context.Context, k script.Keys, id string)

	mu      sync.Mutex
	byID    map[string]*waiter
	some    atomic.Bool // byID is not empty
	closed  bool
	leaving sync.WaitGroup
}

// waiter is a registration.
type waiter struct {
	keys   script.Keys
	queued bool        // an acquire has named the channel, so it may be in the queue
	served bool        // it got the name, and with that left the queue
	later  *time.Timer // hints when the reservation for the one before it ends
}

const (
	// heartbeat is how long the connection may be silent before it is asked whether it lives.
	heartbeat = 10 * time.Second
	// leaveTimeout bounds the request that takes a waiter from the queue.
	leaveTimeout = 2 * time.Second
)

// New makes a queue for the claims of this process. dequeue has a claim leave the queue
// that Redis has.
func New(client redis.UniversalClient, channel string, dequeue func(ctx context.Context, k script.Keys, id string)) *Queue {
	q := &Queue{client: client, channel: channel, dequeue: dequeue, byID: map[string]*waiter{}}
	q.hints.Connect, q.hints.Silence = q.connect, heartbeat
	return q
}

// Listening says whether this process listens on its channel.
func (q *Queue) Listening() bool { return q.hints.Listening() }

// Listen begins to listen, and returns once this process does.
func (q *Queue) Listen(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := q.hints.Wait(ctx, "")
	return failure.Of(err)
}

// Register returns the hints for a claim once this process listens. The claim
// joins the queue with its next acquire.
func (q *Queue) Register(ctx context.Context, k script.Keys, id string) (abstractions.Wakeups, error) {
	hints, err := q.hints.Wait(ctx, id)
	if err != nil {
		return hints, failure.Of(err)
	}
	w := &waiter{keys: k}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return abstractions.Wakeups{}, abstractions.ErrClosed
	}
	if before := q.byID[id]; before != nil {
		w.queued = before.queued // its place is the new registration's now
	}
	q.byID[id] = w
	q.some.Store(true)
	context.AfterFunc(ctx, func() { q.leave(id, w) })
	return hints, nil
}

// ChannelOf returns the channel on which to wake a claim, if it is registered
// and this process listens.
func (q *Queue) ChannelOf(id string) string {
	if !q.some.Load() || !q.Listening() {
		return ""
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.byID[id]
	if w == nil {
		return ""
	}
	w.queued = true
	return q.channel
}

// Served notes that a claim has got its name.
func (q *Queue) Served(id string) {
	if !q.some.Load() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.byID[id]; w != nil {
		w.served = true
	}
}

// leave ends a registration, and takes the claim from the queue if it may be there.
func (q *Queue) leave(id string, w *waiter) {
	q.mu.Lock()
	last := q.byID[id] == w // it was not registered again
	if last {
		delete(q.byID, id)
		q.some.Store(len(q.byID) > 0)
	}
	if w.later != nil {
		w.later.Stop()
	}
	send := last && w.queued && !w.served && !q.closed
	if send {
		q.leaving.Add(1)
	}
	q.mu.Unlock()
	if send {
		q.handOn(w.keys, id)
	}
}

// handOn takes a claim from the queue; if it was its turn, it is the next one's
// then. If that fails, it loses its place when its turn comes. Its caller has
// added to leaving.
func (q *Queue) handOn(k script.Keys, id string) {
	defer q.leaving.Done()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	q.dequeue(ctx, k, id)
}

// message takes "id delay key": ask after so many milliseconds. It returns the claim if that
// is now. One that has left hands its turn on: its acquire was under way, and put it into the
// queue after it had been taken out.
func (q *Queue) message(text string) (now string) {
	id, rest, _ := strings.Cut(text, " ")
	delay, key, _ := strings.Cut(rest, " ")
	after, err := strconv.Atoi(delay)
	if err != nil {
		return "" // not ours
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.byID[id]
	switch {
	case w == nil && after == 0 && !q.closed && strings.HasSuffix(key, "}"):
		q.leaving.Add(1)
		go q.handOn(script.KeysAt(key), id)
	case w == nil:
	case after == 0:
		return id
	default:
		if w.later != nil {
			w.later.Stop()
		}
		w.later = time.AfterFunc(time.Duration(after)*time.Millisecond, func() { q.hints.Wake(id) })
	}
	return ""
}

// Close ends the connection and waits for those who are leaving.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.hints.Close()
	q.leaving.Wait()
}
