// Package waitqueue is the part of a process in the queues that Redis has of those who wait for
// a name: it knows which claims of this process wait, and listens for their turns.
package waitqueue

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
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
	subscription
	dequeue func(ctx context.Context, k script.Keys, id string)

	mu      sync.Mutex
	byID    map[string]*waiter
	closed  bool
	leaving sync.WaitGroup
}

// waiter is a registration.
type waiter struct {
	keys   script.Keys
	hints  chan struct{}
	queued bool        // an acquire has named the channel, so it may be in the queue
	served bool        // it got the name, and with that left the queue
	later  *time.Timer // hints when the reservation for the one before it ends
}

// leaveTimeout bounds the request that takes a waiter from the queue.
const leaveTimeout = 2 * time.Second

// New makes a queue for the claims of this process. dequeue has a claim leave the queue
// that Redis has.
func New(client redis.UniversalClient, channel string, dequeue func(ctx context.Context, k script.Keys, id string)) *Queue {
	ws := &Queue{dequeue: dequeue, byID: map[string]*waiter{}}
	ctx, end := context.WithCancel(context.Background())
	ws.subscription = subscription{
		client: client, channel: channel, message: ws.message, renewed: ws.hintAll, heartbeat: heartbeat,
		ready: make(chan struct{}), ctx: ctx, end: end,
	}
	return ws
}

// Listening says whether this process listens on its channel.
func (ws *Queue) Listening() bool { return ws.live.Load() }

// Register returns the hints for a claim once this process listens. The claim
// joins the queue with its next acquire.
func (ws *Queue) Register(ctx context.Context, k script.Keys, id string) (abstractions.Wakeups, error) {
	if err := ws.Listen(ctx); err != nil {
		return abstractions.Wakeups{}, err
	}
	w := &waiter{keys: k, hints: make(chan struct{}, 1)}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return abstractions.Wakeups{}, abstractions.ErrClosed
	}
	if before := ws.byID[id]; before != nil {
		w.queued = before.queued // its place is the new registration's now
	}
	ws.byID[id] = w
	context.AfterFunc(ctx, func() { ws.leave(id, w) })
	return abstractions.Wakeups{C: w.hints}, nil
}

// ChannelOf returns the channel on which to wake a claim, if it is registered
// and this process listens.
func (ws *Queue) ChannelOf(id string) string {
	if !ws.Listening() {
		return ""
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.byID[id]
	if w == nil {
		return ""
	}
	w.queued = true
	return ws.channel
}

// Served notes that a claim has got its name.
func (ws *Queue) Served(id string) {
	if !ws.Listening() {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byID[id]; w != nil {
		w.served = true
	}
}

// leave ends a registration, and takes the claim from the queue if it may be there.
func (ws *Queue) leave(id string, w *waiter) {
	ws.mu.Lock()
	last := ws.byID[id] == w // it was not registered again
	if last {
		delete(ws.byID, id)
	}
	if w.later != nil {
		w.later.Stop()
	}
	send := last && w.queued && !w.served && !ws.closed
	if send {
		ws.leaving.Add(1)
	}
	ws.mu.Unlock()
	if send {
		ws.handOn(w.keys, id)
	}
}

// handOn takes a claim from the queue; if it was its turn, it is the next one's
// then. If that fails, it loses its place when its turn comes. Its caller has
// added to leaving.
func (ws *Queue) handOn(k script.Keys, id string) {
	defer ws.leaving.Done()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	ws.dequeue(ctx, k, id)
}

// message takes "id delay key": ask after so many milliseconds.
func (ws *Queue) message(text string) {
	id, rest, _ := strings.Cut(text, " ")
	delay, key, _ := strings.Cut(rest, " ")
	after, err := strconv.Atoi(delay)
	if err != nil {
		return // not ours
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.byID[id]
	switch {
	case w == nil && after == 0:
		ws.pass(id, key)
	case w == nil:
	case after > 0:
		if w.later != nil {
			w.later.Stop()
		}
		w.later = time.AfterFunc(time.Duration(after)*time.Millisecond, w.hint)
	default:
		w.hint()
	}
}

// pass hands on the turn of a claim that has left: its acquire was under way, and
// put it into the queue after it had been taken out. Caller holds mu.
func (ws *Queue) pass(id, key string) {
	if ws.closed || !strings.HasSuffix(key, "}") {
		return
	}
	ws.leaving.Add(1)
	go ws.handOn(script.KeysAt(key), id)
}

func (w *waiter) hint() {
	select {
	case w.hints <- struct{}{}:
	default:
	}
}

// hintAll hints everybody: messages may have been missed. It gives those a new
// place who have lost theirs since nobody listened.
func (ws *Queue) hintAll() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.byID {
		w.hint()
	}
}

// Close ends the subscription and waits for those who are leaving.
func (ws *Queue) Close() {
	ws.mu.Lock()
	ws.closed = true
	ws.mu.Unlock()
	ws.subscription.close()
	ws.leaving.Wait()
}
