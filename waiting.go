package leasing

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// queues has a queue for each name that somebody in this manager waits for.
// Only the head of a queue asks the backend, so that a hundred waiters cost it
// what one does; the others wait for their turn, first come, first served.
type queues struct {
	m       *manager
	waiting atomic.Int64 // those in all queues that wait

	mu     sync.Mutex
	byName map[string]*queue
	// fought are names that others held when we last asked, and when that was:
	// who asks for one again soon had better subscribe first. Empty where the
	// provider pushes no wake-ups.
	fought map[string]time.Time
}

// queue is the waiters for one name. It exists while there are any, or while
// the clean-up behind a head that left is not settled.
type queue struct {
	name    string
	tickets []*ticket // the first is the head
	blocked bool      // an earlier head's last request is not settled yet
	holder  *lease    // ours, of this name, as far as the queue knows

	handOvers  int       // in a row from one of us to the next
	since      time.Time // the first of them
	yieldUntil time.Time // others get their turn until then
}

// ticket is a place in a queue.
type ticket struct {
	head  bool
	turn  chan struct{} // closed when it becomes the head; nil if it was from the start
	freed chan struct{} // hints that our own lease of the name has ended; buffered; nil until asked for
}

// After handOverLimit hand-overs in a row within this manager, and no sooner
// than handOverPolls x MaxPoll after the first of them, the next head leaves the
// name alone for a MaxPoll, in which every other process that polls asks once.
const (
	handOverLimit = 8
	handOverPolls = 4
)

// maxFought bounds queues.fought.
const maxFought = 1024

func (qs *queues) init(m *manager) {
	qs.m = m
	qs.byName = map[string]*queue{}
	qs.fought = map[string]time.Time{}
}

// wait queues for the name and, as its head, asks until the claim has it.
func (qs *queues) wait(ctx context.Context, c *claim) (*lease, error) {
	ctx, limit, stop := waitLimit(ctx, c.plan.waitLimit)
	defer stop()
	q, t := qs.join(c.name)
	returned := false
	defer func() {
		if !returned { // the provider panicked: those behind must not wait for us
			qs.leave(q, t, nil, false)
		}
	}()
	l, err := qs.await(ctx, c, q, t, limit)
	returned = true
	unresolved := l == nil && c.unknown
	head := qs.leave(q, t, l, unresolved)
	if unresolved {
		qs.m.abandon(c, func() {
			if head {
				qs.unblock(q)
			}
		})
	}
	return l, err
}

func (qs *queues) await(ctx context.Context, c *claim, q *queue, t *ticket, limit <-chan time.Time) (*lease, error) {
	m := qs.m
	if t.turn != nil {
		passed := false
		m.telemetry.waiters(c.scope, +1)
		qs.waiting.Add(1)
		select {
		case <-t.turn:
		case <-limit:
			passed = true
		case <-ctx.Done():
		case <-m.closing:
		}
		qs.waiting.Add(-1)
		m.telemetry.waiters(c.scope, -1)
		last := qs.heldHere(q)
		switch {
		case m.isClosing():
			return nil, gaveUp(ErrClosed, last)
		case ctx.Err() != nil:
			return nil, gaveUp(context.Cause(ctx), last)
		case passed: // the limit has passed, but Acquire asks at least once
			return m.ask(ctx, c)
		}
	}
	head := campaign{m: m, c: c, q: q, t: t, limit: limit}
	return head.run(ctx)
}

func (qs *queues) join(name string) (*queue, *ticket) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.byName[name]
	if q == nil {
		q = &queue{name: name}
		qs.byName[name] = q
	}
	t := &ticket{head: len(q.tickets) == 0 && !q.blocked}
	if !t.head {
		t.turn = make(chan struct{})
	}
	q.tickets = append(q.tickets, t)
	return q, t
}

// leave gives a place up, with the lease that was won, if any. If the head
// leaves with a request unresolved, the next one has to wait until that has
// been cleaned up: it would meet a ghost of ours, and sleep until that expires.
func (qs *queues) leave(q *queue, t *ticket, won *lease, unresolved bool) (wasHead bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	i := slices.Index(q.tickets, t)
	q.tickets = slices.Delete(q.tickets, i, i+1)
	if won != nil {
		q.holder = won
		q.yieldUntil = time.Time{}
	}
	if t.head && unresolved {
		q.blocked = true
	}
	qs.promote(q)
	return t.head
}

func (qs *queues) unblock(q *queue) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.blocked = false
	qs.promote(q)
}

// promote gives the first in the queue its turn, or ends an empty queue. Needs mu.
func (qs *queues) promote(q *queue) {
	switch {
	case q.blocked:
	case len(q.tickets) == 0:
		if qs.byName[q.name] == q {
			delete(qs.byName, q.name)
		}
	case !q.tickets[0].head:
		q.tickets[0].head = true
		close(q.tickets[0].turn)
	}
}

// ending has the head of the queue ask while the release of a lease of ours is on
// its way, where the backend keeps a queue: the two requests follow each other
// closely. If they pass each other, the head is a registered waiter when the
// release arrives.
func (qs *queues) ending(l *lease) {
	if !qs.m.queued {
		return
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.byName[l.name]; q != nil && q.holder == l && len(q.tickets) > 0 && q.tickets[0].freed != nil {
		poke(q.tickets[0].freed)
	}
}

// ended hands the name of a lease of ours that has ended to the head of its
// queue, unless it is the others' turn: then the head goes on as if it had
// heard nothing, and competes with them on equal terms.
func (qs *queues) ended(l *lease) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.byName[l.name]
	if q == nil {
		return
	}
	switch q.holder {
	case l:
		q.holder = nil
	case nil:
	default:
		return // another of us has it already
	}
	now := time.Now()
	if q.handOvers++; q.handOvers == 1 {
		q.since = now
	}
	maxPoll := qs.m.options.MaxPoll
	if !qs.m.queued && q.handOvers > handOverLimit && now.Sub(q.since)/handOverPolls > maxPoll {
		q.handOvers = 0
		q.yieldUntil = now.Add(maxPoll)
		return
	}
	if len(q.tickets) > 0 && q.tickets[0].freed != nil {
		poke(q.tickets[0].freed)
	}
}

// takenByOthers notes that the row of hand-overs among us is broken.
func (qs *queues) takenByOthers(q *queue) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q.holder != nil {
		return
	}
	q.handOvers = 0
	if qs.m.waiter == nil {
		return
	}
	if len(qs.fought) == maxFought {
		for name := range qs.fought { // any
			delete(qs.fought, name)
			break
		}
	}
	qs.fought[q.name] = time.Now()
}

// contended reports whether others held the name when we last asked, a short
// while ago.
func (qs *queues) contended(name string) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	at, ok := qs.fought[name]
	if ok && time.Since(at) > pushedPolls*qs.m.options.MaxPoll {
		delete(qs.fought, name)
		return false
	}
	return ok
}

// heldHere describes the holder if it is a lease of this manager.
func (qs *queues) heldHere(q *queue) error {
	qs.mu.Lock()
	holder := q.holder
	qs.mu.Unlock()
	if holder == nil {
		return nil
	}
	return &HeldError{Holder: Record{
		Name: holder.name, Held: true, ID: holder.id, Owner: holder.Owner(), Token: holder.token,
		TTL: holder.TTL(), Metadata: holder.Metadata(),
	}}
}

// entrance says what a new head does first: ask at once, or wait a while,
// since one of us has the name or it is the others' turn. From then on freed
// hints at the end of our own lease.
func (qs *queues) entrance(q *queue, t *ticket) (pause time.Duration) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q.holder == nil && q.yieldUntil.IsZero() {
		return 0
	}
	t.freed = make(chan struct{}, 1)
	if q.holder != nil {
		return qs.m.options.MaxPoll
	}
	return max(0, time.Until(q.yieldUntil))
}

// listen returns the channel that hints at the end of our own lease.
func (qs *queues) listen(t *ticket) <-chan struct{} {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if t.freed == nil {
		t.freed = make(chan struct{}, 1)
	}
	return t.freed
}

func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
