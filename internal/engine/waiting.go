package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
)

// queues has a queue for each name that has waiters in this manager.
// Only the head of a queue asks the backend, so that a hundred waiters cost the backend
// no more than one waiter. The others wait for their turn, first come, first served.
type queues struct {
	m *Manager

	mu     sync.Mutex
	byName map[string]*queue
	recent map[string]*streak
}

// queue has the waiters for one name. It exists while there are waiters, or while
// the clean-up after a head that left is not settled.
type queue struct {
	name    string
	tickets []*ticket // the first is the head
	blocked bool      // an earlier head's last request is not settled yet
	holder  *lease    // ours, of this name, as far as the queue knows
	refused time.Time // since when the backend has answered only with refusals; zero if the latest answer was no refusal
}

// ticket is a place in a queue.
type ticket struct {
	head  bool
	turn  chan struct{} // closed when the ticket becomes the head; nil if it was the head from the start
	freed chan struct{} // wakes the head when our own lease of the name has ended; buffered; nil before firstPause or listen
	ended bool          // our own lease ended before freed was made
	since time.Time     // when it began to wait; zero before
}

func (qs *queues) init(m *Manager) {
	qs.m = m
	qs.byName = map[string]*queue{}
	qs.recent = map[string]*streak{}
}

// wait queues for the name and, as head of the queue, asks until the claim has the name.
func (qs *queues) wait(ctx context.Context, l *lease) error {
	var limit <-chan time.Time
	if d := l.settings.WaitLimit; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, trust.AddSaturated(d, waitGrace), errWaitLimit)
		defer cancel()
		timer := time.NewTimer(d)
		defer timer.Stop()
		limit = timer.C
	}
	q, t := qs.join(l.name)
	var won *lease
	defer func() { // also after a panic of the application's code: later waiters must not wait for us
		unresolved := won == nil && l.life.Unknown()
		head := qs.leave(q, t, won, unresolved)
		if unresolved {
			qs.m.abandon(l, func() {
				if head {
					qs.unblock(q)
				}
			})
		}
		if !t.since.IsZero() {
			qs.m.telemetry.Waiting(l.scope, -1)
		}
	}()
	err := qs.await(ctx, l, q, t, limit)
	if err == nil {
		won = l
	}
	return err
}

func (qs *queues) await(ctx context.Context, l *lease, q *queue, t *ticket, limit <-chan time.Time) error {
	m := qs.m
	if t.turn != nil {
		qs.noteWaiting(l, t)
		passed := false
		select {
		case <-t.turn:
		case <-limit:
			passed = true
		case <-ctx.Done():
		case <-m.accepting.Done():
		}
		last := qs.localHolder(q)
		switch {
		case m.isClosing():
			return gaveUp(abstractions.ErrClosed, last)
		case ctx.Err() != nil:
			return gaveUp(context.Cause(ctx), last)
		case passed: // the limit has passed, but Acquire asks at least once
			return m.ownHolder(m.ask(ctx, l))
		}
	}
	head := headWaiter{m: m, l: l, q: q, t: t, limit: limit}
	return head.run(ctx)
}

// noteWaiting counts a ticket as waiting, from its first call until it leaves.
func (qs *queues) noteWaiting(l *lease, t *ticket) {
	qs.mu.Lock()
	first := t.since.IsZero()
	if first {
		t.since = time.Now()
	}
	qs.mu.Unlock()
	if first {
		qs.m.telemetry.Waiting(l.scope, +1)
	}
}

// waiters returns the number of waiters, and the time for which the first has waited.
func (qs *queues) waiters() (n int, longest time.Duration) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, q := range qs.byName {
		for _, t := range q.tickets {
			if !t.since.IsZero() {
				n++
				longest = max(longest, time.Since(t.since))
			}
		}
	}
	return n, longest
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

// leave gives up a place in the queue. won is the lease that was acquired, or nil. If the head
// leaves with the outcome of a request unknown, the next waiter waits for the clean-up:
// otherwise it would see our own ambiguous claim as the holder, and sleep until that claim expires.
func (qs *queues) leave(q *queue, t *ticket, won *lease, unresolved bool) (wasHead bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	i := slices.Index(q.tickets, t)
	q.tickets = slices.Delete(q.tickets, i, i+1)
	if won != nil {
		q.holder = won
		if !qs.m.queued {
			qs.remember(q.name).current = abstractions.FingerprintOf(won.id)
		}
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

// promote gives the first in the queue its turn, or ends an empty queue. Caller holds mu.
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

// ending makes the head of the queue ask while the release of a lease of ours is on
// its way, where the backend keeps a queue: the two requests follow each other
// closely. If the head's request overtakes the release, the head is a registered waiter when the
// release arrives.
func (qs *queues) ending(l *lease) {
	if !qs.m.queued {
		return
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.byName[l.name]; q != nil && q.holder == l {
		q.wakeHead()
	}
}

// ended wakes the head of the queue after the end of a lease of ours, unless other
// processes have their turn: then the head waits for a moment (see streak).
func (qs *queues) ended(l *lease) {
	acquired := qs.m.clock.Time(l.acquiredAt)
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.byName[l.name]
	if q != nil && q.holder != l && q.holder != nil {
		return // another lease of this manager already has the name
	}
	var pause time.Duration
	if !qs.m.queued {
		pause = qs.remember(l.name).extend(acquired, time.Now(), qs.m.config.MinPoll, qs.m.config.MaxPoll)
	}
	switch {
	case q == nil:
	case pause > 0:
		q.holder = nil
		time.AfterFunc(pause, func() {
			qs.mu.Lock()
			defer qs.mu.Unlock()
			q.wakeHead()
		})
	default:
		q.holder = nil
		q.wakeHead()
	}
}

// wakeHead makes the head ask, now or when the head begins to listen. Caller holds the queues' mu.
func (q *queue) wakeHead() {
	if len(q.tickets) == 0 {
		return
	}
	if t := q.tickets[0]; t.freed == nil {
		t.ended = true
	} else {
		signal(t.freed)
	}
}

// noteOtherHolder notes that the claim of the given fingerprint, of another manager, has the name.
func (qs *queues) noteOtherHolder(q *queue, claim abstractions.Fingerprint) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q.holder != nil {
		return
	}
	if s := qs.remember(q.name); s.current != claim {
		s.fought, s.leases, s.moments = time.Now(), 0, streakShared
	}
}

// contended reports whether others held the name at our last request, a short
// while ago. A claim to such a name registers as a waiter before its first request.
func (qs *queues) contended(name string) bool {
	if qs.m.waiter == nil {
		return false
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	s := qs.recent[name]
	return s != nil && time.Since(s.fought) <= pushedPolls*qs.m.config.MaxPoll
}

// refused notes the answer to a head, and reports whether the backend has answered only with refusals
// for longer than RefusalTimeout. An outage is no answer.
func (qs *queues) refused(q *queue, err error) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	switch {
	case denied(err):
		if q.refused.IsZero() {
			q.refused = time.Now()
		}
		return time.Since(q.refused) >= qs.m.config.RefusalTimeout
	case errors.Is(err, abstractions.ErrHeld), errors.Is(err, abstractions.ErrThrottled):
		q.refused = time.Time{}
	}
	return false
}

// localHolder describes the holder if it is a lease of this manager.
func (qs *queues) localHolder(q *queue) error {
	qs.mu.Lock()
	holder := q.holder
	qs.mu.Unlock()
	if holder == nil {
		return nil
	}
	return &abstractions.HeldError{ByThisManager: true, Holder: abstractions.Record{
		Name: holder.name, Held: true, Fingerprint: abstractions.FingerprintOf(holder.id), Owner: holder.Owner(), Token: holder.token,
		TTL: holder.TTL(), Metadata: holder.Metadata(),
	}}
}

// firstPause returns the pause of a new head before its first request: 0 to ask at once, or more
// if a lease of this manager has the name or other processes have their turn. Beside a pause
// freed wakes the head at the end of our own lease.
func (qs *queues) firstPause(q *queue, t *ticket) (pause time.Duration) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	s := qs.recent[q.name]
	if q.holder == nil {
		if s == nil || s.yielding.IsZero() {
			return 0
		}
		pause = time.Until(s.yielding)
		s.yielding = time.Time{}
	} else {
		pause = qs.m.config.MaxPoll
	}
	if pause > 0 {
		t.freed = make(chan struct{}, 1)
	}
	return max(0, pause)
}

// listen returns the channel that wakes the head at the end of our own lease.
func (qs *queues) listen(t *ticket) <-chan struct{} {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if t.freed == nil {
		t.freed = make(chan struct{}, 1)
		if t.ended {
			signal(t.freed)
		}
	}
	return t.freed
}

// signal wakes the present or the next receiver of c. It never blocks.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
