// Package notify delivers events to observers, among them the logger of a manager. Each observer has a queue of its own and,
// while it has events, a goroutine: a slow observer does not delay leases or other observers.
package notify

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// stuckAfter is the time after which Health counts an observer that is busy with one event as stuck.
const stuckAfter = 10 * time.Second

// maxPending limits the number of events that wait for a stuck observer. Events for an observer
// that is only slow are never dropped.
const maxPending = 10_000

// Observers delivers events to subscriptions. Publishing only queues an event, so it
// is safe under a lease's lock. A subscription has a goroutine only while it has
// events to deliver.
type Observers struct {
	onPanic func()
	log     func(level slog.Level, text string, args ...any)
	panics  atomic.Int64
	all     atomic.Pointer[[]*Subscription] // of the manager's events
	logger  *Subscription                   // the logger's subscription, which is also in all; nil without a logger

	mu   sync.Mutex
	busy map[*Subscription]struct{} // subscriptions with a goroutine
	idle chan struct{}              // closed when no subscription is busy; nil before flush
}

// Subscription is an observer and its undelivered events.
type Subscription struct {
	observers *Observers
	observer  abstractions.Observer

	mu      sync.Mutex
	pending []abstractions.Event
	// last is the position in pending of each lease's latest event.
	last    map[abstractions.Fingerprint]int
	dropped int // since pending was full
	running bool
	closed  bool
	began   time.Time // of the call under way; zero between calls
}

// New returns observers, with a subscription of the logger unless the logger discards everything. provider is the kind of
// provider, for the log. After an observer has panicked, onPanic is called for the metrics, and log to report the panic.
func New(logger *slog.Logger, provider string, onPanic func(), log func(level slog.Level, text string, args ...any)) *Observers {
	o := &Observers{onPanic: onPanic, log: log, busy: map[*Subscription]struct{}{}}
	o.all.Store(&[]*Subscription{})
	if logger.Handler() != slog.DiscardHandler {
		l := newLogger(logger, provider)
		o.logger = o.ForLease(l.observe)
		l.tickAfter = func(d time.Duration) *time.Timer {
			return time.AfterFunc(d, func() { o.logger.add(&abstractions.Event{Kind: logTick}) })
		}
		o.all.Store(&[]*Subscription{o.logger})
	}
	return o
}

// ForLease returns a subscription for the events of one lease: see Publish.
func (o *Observers) ForLease(observer abstractions.Observer) *Subscription {
	return &Subscription{observers: o, observer: observer}
}

// Subscribe adds an observer of all events until unsubscribe is called. A nil observer is ignored.
func (o *Observers) Subscribe(observer abstractions.Observer) (unsubscribe func()) {
	if observer == nil {
		return func() {}
	}
	s := o.ForLease(observer)
	o.mu.Lock()
	defer o.mu.Unlock()
	all := append(slices.Clone(*o.all.Load()), s)
	o.all.Store(&all)
	return func() {
		o.mu.Lock()
		all := slices.DeleteFunc(slices.Clone(*o.all.Load()), func(other *Subscription) bool { return other == s })
		o.all.Store(&all)
		o.mu.Unlock()
		s.close()
	}
}

// Publish queues an event about the claim id ("" for no claim) for all subscriptions and for
// own, the lease's subscription, unless own is nil. Without subscriptions it computes no fingerprint.
func (o *Observers) Publish(own *Subscription, id string, e *abstractions.Event) {
	all := *o.all.Load()
	if own == nil && len(all) == 0 {
		return
	}
	e.Fingerprint = abstractions.FingerprintOf(id)
	if own != nil {
		own.add(e)
	}
	for _, s := range all {
		s.add(e)
	}
}

// add queues an event, and starts a goroutine for the delivery unless one is running.
func (s *Subscription) add(e *abstractions.Event) {
	s.mu.Lock()
	idle := s.queue(e) && !s.running
	s.running = s.running || idle
	s.mu.Unlock()
	if idle {
		s.observers.noteBusy(s)
		go s.drain()
	}
}

// queue appends an event. It reports false if the event was merged or dropped, so that no new
// event is pending. Caller holds mu.
func (s *Subscription) queue(e *abstractions.Event) bool {
	if s.closed {
		return false
	}
	if i, ok := s.last[e.Fingerprint]; ok && coalesce(&s.pending[i], e) {
		return false
	}
	if len(s.pending) >= maxPending && s.isStuck() {
		s.dropped++
		return false
	}
	s.reportDropped()
	s.pending = append(s.pending, *e)
	if !e.Fingerprint.IsZero() {
		if s.last == nil {
			s.last = map[abstractions.Fingerprint]int{}
		}
		s.last[e.Fingerprint] = len(s.pending) - 1
	}
	return true
}

// reportDropped queues an event that stands for the dropped events. Caller
// holds mu.
func (s *Subscription) reportDropped() {
	if s.dropped > 0 {
		s.pending = append(s.pending, abstractions.Event{Kind: abstractions.EventDropped, Time: time.Now(), Coalesced: s.dropped})
		s.dropped = 0
	}
}

// isStuck reports whether the observer has been busy with one event for too
// long. Caller holds mu.
func (s *Subscription) isStuck() bool {
	return !s.began.IsZero() && time.Since(s.began) > stuckAfter
}

// coalesce merges an event into the previous event of the same lease, if both
// are of one kind that may be merged.
func coalesce(before, e *abstractions.Event) bool {
	if before.Kind != e.Kind || e.Kind != abstractions.EventRenewed && e.Kind != abstractions.EventRenewalFailed && e.Kind != abstractions.EventAcquireFailed {
		return false
	}
	count := before.Coalesced + e.Coalesced
	*before = *e
	before.Coalesced = count
	return true
}

// drain delivers pending events until none is left.
func (s *Subscription) drain() {
	var batch []abstractions.Event
	done := false
	defer func() {
		if done {
			s.observers.noteIdle(s)
			return
		}
		// The observer has ended its goroutine (runtime.Goexit): continue in another goroutine.
		s.observers.panics.Add(1)
		s.mu.Lock()
		s.pending, s.last = append(batch, s.pending...), nil
		s.mu.Unlock()
		go s.drain()
	}()
	for !done {
		s.mu.Lock()
		s.reportDropped()
		batch = s.pending
		s.pending, s.last = nil, nil
		done = len(batch) == 0
		s.running = !done
		s.mu.Unlock()
		for len(batch) > 0 {
			e := batch[0]
			batch = batch[1:]
			s.deliver(e)
		}
	}
}

// deliver calls the observer. It recovers the observer's panics.
func (s *Subscription) deliver(e abstractions.Event) {
	if !s.setBusy(time.Now()) {
		return
	}
	defer func() {
		s.setBusy(time.Time{})
		if r := recover(); r != nil {
			s.observers.reportPanic(r, e)
		}
	}()
	s.observer(e)
}

// setBusy notes the start of a call of the observer or, with the zero time, the end of the
// call. It reports false if the subscription is closed.
func (s *Subscription) setBusy(began time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = began
	return !s.closed
}

func (s *Subscription) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.pending, s.last = nil, nil
}

func (o *Observers) reportPanic(r any, e abstractions.Event) {
	o.panics.Add(1)
	o.onPanic()
	o.log(slog.LevelError, "leasing: an observer panicked", "panic", r, "event", e.Kind, "lease", e.Name)
}

// Panics returns how often an observer panicked or ended its goroutine.
func (o *Observers) Panics() int64 { return o.panics.Load() }

func (o *Observers) noteBusy(s *Subscription) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy[s] = struct{}{}
}

func (o *Observers) noteIdle(s *Subscription) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.mu.Lock()
	running := s.running // a new event may have come in since drain ended
	s.mu.Unlock()
	if running {
		return
	}
	delete(o.busy, s)
	if len(o.busy) == 0 && o.idle != nil {
		close(o.idle)
		o.idle = nil
	}
}

// Flush waits until all events have been delivered, for a bounded time.
func (o *Observers) Flush(bound time.Duration) {
	if o.logger != nil {
		o.logger.add(&abstractions.Event{Kind: logEnd})
	}
	o.mu.Lock()
	if len(o.busy) == 0 {
		o.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	o.idle = idle
	o.mu.Unlock()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// Stuck counts the observers that have been busy with one event for too long.
func (o *Observers) Stuck() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := range o.busy {
		s.mu.Lock()
		if s.isStuck() {
			n++
		}
		s.mu.Unlock()
	}
	return n
}
