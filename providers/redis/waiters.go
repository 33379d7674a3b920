package redislease

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// waiters are this process' claims that wait at a node. In Redis each name has a
// queue of those who wait for it, of all processes (scripts/queueing.lua): an
// acquire that is refused joins it, a release wakes its head alone and reserves
// the name for it. Each process listens on one channel for all of its waiters.
//
// A waiter whose process has died, or who has left without a word, loses its
// place when its turn comes.
type waiters struct {
	node         *node
	subscription subscription

	mu      sync.Mutex
	byID    map[string]*waiter
	closed  bool
	leaving sync.WaitGroup
}

// waiter is a registration.
type waiter struct {
	keys   keys
	hints  chan struct{}
	queued bool        // an acquire has named the channel, so it may be in the queue
	served bool        // it got the name, and with that left the queue
	later  *time.Timer // hints when the reservation for the one before it ends
}

// leaveTimeout bounds the request that takes a waiter from the queue.
const leaveTimeout = 2 * time.Second

func (ws *waiters) init(d *node, channel string) {
	ws.node = d
	ws.byID = map[string]*waiter{}
	ws.subscription.init(d.client, channel, ws.message, ws.hintAll)
}

// register returns the hints for a claim once this process listens. The claim
// joins the queue with its next acquire.
func (ws *waiters) register(ctx context.Context, k keys, id string) (abstractions.Wakeups, error) {
	if err := ws.subscription.wait(ctx); err != nil {
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

// channelOf returns the channel on which to wake a claim, if it is registered
// and this process listens.
func (ws *waiters) channelOf(id string) string {
	if !ws.subscription.live.Load() {
		return ""
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.byID[id]
	if w == nil {
		return ""
	}
	w.queued = true
	return ws.subscription.channel
}

// served notes that a claim has got its name.
func (ws *waiters) served(id string) {
	if !ws.subscription.live.Load() {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byID[id]; w != nil {
		w.served = true
	}
}

// leave ends a registration, and takes the claim from the queue if it may be there.
func (ws *waiters) leave(id string, w *waiter) {
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
		ws.dequeue(w.keys, id)
	}
}

// dequeue takes a claim from the queue; if it was its turn, it is the next one's
// then. If that fails, it loses its place when its turn comes. Its caller has
// added to leaving.
func (ws *waiters) dequeue(k keys, id string) {
	defer ws.leaving.Done()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	op := leaveOp(k, id, ws.subscription.channel)
	_ = ws.node.do(ctx, &op)
}

// message takes "id delay key": ask after so many milliseconds.
func (ws *waiters) message(text string) {
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
		w.later = time.AfterFunc(millis(int64(after)), w.hint)
	default:
		w.hint()
	}
}

// pass hands on the turn of a claim that has left: its acquire was under way, and
// put it into the queue after it had been taken out. Caller holds mu.
func (ws *waiters) pass(id, key string) {
	if ws.closed || !strings.HasSuffix(key, "}") {
		return
	}
	ws.leaving.Add(1)
	go ws.dequeue(keys{name: key, queue: key + queueSuffix}, id)
}

func (w *waiter) hint() {
	select {
	case w.hints <- struct{}{}:
	default:
	}
}

// hintAll hints everybody: messages may have been missed. It gives those a new
// place who have lost theirs since nobody listened.
func (ws *waiters) hintAll() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.byID {
		w.hint()
	}
}

// close ends the subscription and waits for those who are leaving.
func (ws *waiters) close() {
	ws.mu.Lock()
	ws.closed = true
	ws.mu.Unlock()
	ws.subscription.close()
	ws.leaving.Wait()
}
