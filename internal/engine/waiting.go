package engine

import (
	"context"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
	"github.com/distributedleasing/leasing/internal/waiting"
)

// maxRecent is the number of queues at which get begins to drop idle queues.
const maxRecent = 1024

// queues has a queue of a manager's waiters for each name. Only the head of a queue asks the backend, so a hundred waiters cost
// the backend no more than one waiter.
type queues struct {
	m      *Manager
	rules  waiting.Rules
	mu     sync.Mutex
	byName map[string]*queue
}

type queue = waiting.Queue[*waiter, *lease]

func (qs *queues) init(m *Manager) {
	qs.m, qs.byName = m, map[string]*queue{}
	qs.rules = waiting.Rules{
		MinPoll: m.config.MinPoll, MaxPoll: m.config.MaxPoll, RefusalTimeout: m.config.RefusalTimeout,
		Wakeups: m.waiter != nil, Queued: m.waiter != nil && m.caps.Queues,
	}
}

// get returns the queue of a name. Before it makes a new queue, it may drop idle queues. Caller holds mu.
func (qs *queues) get(name string) *queue {
	q := qs.byName[name]
	if q == nil {
		for other, old := range qs.byName { // in any order
			if len(qs.byName) < maxRecent || !old.Idle() {
				break
			}
			delete(qs.byName, other)
		}
		q = waiting.New[*waiter, *lease](&qs.rules)
		qs.byName[name] = q
	}
	return q
}

// update calls input, and wakes the waiter that input returns. Locks mu.
func (qs *queues) update(input func() (wake *waiter)) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if w := input(); w != nil {
		signal(w.wake)
	}
}

// wait queues for the name and, as head of the queue, asks until the claim has the name.
func (qs *queues) wait(ctx context.Context, l *lease) error {
	w := &waiter{m: qs.m, l: l, wake: make(chan struct{}, 1), unsubscribe: func() {}}
	if d := l.settings.WaitLimit; d > 0 { // a request that is under way at the limit gets another second
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, trust.AddSaturated(d, time.Second), waiting.ErrLimit)
		defer cancel()
		timer := time.NewTimer(d)
		defer timer.Stop()
		w.limit = timer.C
	}
	qs.mu.Lock()
	w.q = qs.get(l.name)
	head := w.q.Join(w)
	qs.mu.Unlock()
	var won *lease
	defer func() { w.leave(won) }() // even after a panic in the application's code: later waiters must not wait for this waiter
	err := w.run(ctx, head)
	if err == nil {
		won = l
	}
	return err
}

// leave removes the waiter from the queue. won is the lease that was acquired, or nil.
func (w *waiter) leave(won *lease) {
	unresolved, blocks := won == nil && w.l.life.Ambiguous(), false
	w.m.queues.update(func() (wake *waiter) {
		blocks, wake = w.q.Leave(w, won, w.l.id, unresolved)
		if byName := w.m.queues.byName; w.q.Idle() && len(byName) > maxRecent { // more names than maxRecent had waiters at a time
			delete(byName, w.l.name)
		}
		return wake
	})
	if unresolved {
		var settled func()
		if blocks {
			settled = func() { w.m.queues.update(w.q.Settled) }
		}
		w.m.abandon(w.l, settled)
	}
	if !w.since.IsZero() {
		w.m.telemetry.Waiting(w.l.scope, -1)
	}
}

// beforeRelease makes the head ask while the release of a lease of this manager is on its way.
func (qs *queues) beforeRelease(l *lease) {
	qs.update(func() (wake *waiter) {
		if q := qs.byName[l.name]; q != nil {
			wake = q.Ending(l)
		}
		return wake
	})
}

// afterEnd makes the head ask after the end of a lease of this manager.
func (qs *queues) afterEnd(l *lease) {
	qs.update(func() *waiter {
		if qs.rules.Queued && qs.byName[l.name] == nil {
			return nil // nothing to remember
		}
		q := qs.get(l.name)
		wake, later := q.Ended(l, l.AcquiredAt(), time.Now())
		if later > 0 && !q.Idle() {
			time.AfterFunc(later, func() { qs.update(q.Wake) })
		}
		return wake
	})
}

// waiters returns the number of waiters, and the time for which the oldest has waited.
func (qs *queues) waiters() (n int, longest time.Duration) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, q := range qs.byName {
		for _, w := range q.Waiters() {
			if !w.since.IsZero() {
				n++
				longest = max(longest, time.Since(w.since))
			}
		}
	}
	return n, longest
}

// localHolder describes the holder if it is a lease of this manager.
func (qs *queues) localHolder(q *queue) error {
	qs.mu.Lock()
	holder := q.Holder()
	qs.mu.Unlock()
	if holder == nil {
		return nil
	}
	return &abstractions.HeldError{ByThisManager: true, Holder: abstractions.Record{
		Name: holder.name, Held: true, Fingerprint: abstractions.FingerprintOf(holder.id), Owner: holder.Owner(), Token: holder.token,
		TTL: holder.TTL(), Metadata: holder.Metadata(),
	}}
}
