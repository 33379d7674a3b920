package leasing

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// stuckAfter bounds an observer's time for one event before Health counts the
// observer as stuck.
const stuckAfter = 10 * time.Second

// maxPending bounds the events that wait for a stuck observer. A slow observer
// misses no event.
const maxPending = 10_000

// observers delivers events to subscriptions. Publishing only queues an event, so it
// is safe under a lease's lock. A subscription has a goroutine only while it has
// events to deliver.
type observers struct {
	m      *manager
	panics atomic.Int64
	all    atomic.Pointer[[]*subscription] // of the manager's events
	log    *subscription                   // among them, of the logger; nil without one

	mu   sync.Mutex
	busy map[*subscription]struct{} // subscriptions with a goroutine
	idle chan struct{}              // closed when no subscription is busy; nil before flush
}

// subscription is an observer and its undelivered events.
type subscription struct {
	observers *observers
	observer  Observer

	mu      sync.Mutex
	pending []Event
	// last is the position in pending of each lease's latest event.
	last    map[Fingerprint]int
	dropped int // since pending was full
	running bool
	closed  bool
	began   time.Time // of the call under way; zero between calls
}

func (o *observers) init(m *manager) {
	o.m = m
	o.all.Store(&[]*subscription{})
	o.busy = map[*subscription]struct{}{}
	if m.options.Logger.Handler() != slog.DiscardHandler {
		l := &logger{to: m.options.Logger, provider: m.caps.Provider, repeats: map[failureKind]*repeated{}}
		o.log = o.forLease(l.observe)
		l.again = func(d time.Duration) *time.Timer {
			return time.AfterFunc(d, func() { o.log.add(&Event{Kind: logTick}) })
		}
		o.all.Store(&[]*subscription{o.log})
	}
}

// forLease returns a subscription that only the given observer's lease feeds.
func (o *observers) forLease(observer Observer) *subscription {
	return &subscription{observers: o, observer: observer}
}

func (o *observers) subscribe(observer Observer) (unsubscribe func()) {
	if observer == nil {
		return func() {}
	}
	s := o.forLease(observer)
	o.mu.Lock()
	defer o.mu.Unlock()
	all := append(slices.Clone(*o.all.Load()), s)
	o.all.Store(&all)
	return func() {
		o.mu.Lock()
		all := slices.DeleteFunc(slices.Clone(*o.all.Load()), func(other *subscription) bool { return other == s })
		o.all.Store(&all)
		o.mu.Unlock()
		s.close()
	}
}

// publish queues an event about the claim id ("" for no claim) for all subscriptions and for
// own, the lease's subscription, unless own is nil. Without subscriptions it computes no fingerprint.
func (o *observers) publish(own *subscription, id string, e *Event) {
	all := *o.all.Load()
	if own == nil && len(all) == 0 {
		return
	}
	e.Fingerprint = FingerprintOf(id)
	if own != nil {
		own.add(e)
	}
	for _, s := range all {
		s.add(e)
	}
}

// add queues an event, and starts a goroutine for the delivery unless one is running.
func (s *subscription) add(e *Event) {
	s.mu.Lock()
	idle := s.queue(e) && !s.running
	s.running = s.running || idle
	s.mu.Unlock()
	if idle {
		s.observers.started(s)
		go s.drain()
	}
}

// queue appends an event. It reports false if the event was merged or dropped, so that no new
// event is pending. Caller holds mu.
func (s *subscription) queue(e *Event) bool {
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
	s.tellDropped()
	s.pending = append(s.pending, *e)
	if !e.Fingerprint.IsZero() {
		if s.last == nil {
			s.last = map[Fingerprint]int{}
		}
		s.last[e.Fingerprint] = len(s.pending) - 1
	}
	return true
}

// tellDropped queues an event that stands for the dropped events. Caller
// holds mu.
func (s *subscription) tellDropped() {
	if s.dropped > 0 {
		s.pending = append(s.pending, Event{Kind: EventDropped, Time: time.Now(), Coalesced: s.dropped})
		s.dropped = 0
	}
}

// isStuck reports whether the observer has been busy with one event for too
// long. Caller holds mu.
func (s *subscription) isStuck() bool {
	return !s.began.IsZero() && time.Since(s.began) > stuckAfter
}

// coalesce merges an event into the previous event of the same lease, if both
// are of one kind that may be merged.
func coalesce(before, e *Event) bool {
	if before.Kind != e.Kind || e.Kind != EventRenewed && e.Kind != EventRenewalFailed && e.Kind != EventAcquireFailed {
		return false
	}
	count := before.Coalesced + e.Coalesced
	*before = *e
	before.Coalesced = count
	return true
}

// drain delivers pending events until none is left.
func (s *subscription) drain() {
	var batch []Event
	done := false
	defer func() {
		if done {
			s.observers.stopped(s)
			return
		}
		// The observer has ended its goroutine (runtime.Goexit): go on in another.
		s.observers.panics.Add(1)
		s.mu.Lock()
		s.pending, s.last = append(batch, s.pending...), nil
		s.mu.Unlock()
		go s.drain()
	}()
	for !done {
		s.mu.Lock()
		s.tellDropped()
		batch = s.pending
		s.pending, s.last = nil, nil
		done = len(batch) == 0
		s.running = !done
		s.mu.Unlock()
		for len(batch) > 0 {
			e := batch[0]
			batch = batch[1:]
			s.tell(e)
		}
	}
}

// tell calls the observer. It recovers the observer's panics.
func (s *subscription) tell(e Event) {
	if !s.busySince(time.Now()) {
		return
	}
	defer func() {
		s.busySince(time.Time{})
		if r := recover(); r != nil {
			s.observers.panicked(r, e)
		}
	}()
	s.observer(e)
}

// busySince notes the start of a call of the observer or, with the zero time, the end of the
// call. It reports false if the subscription is closed.
func (s *subscription) busySince(began time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = began
	return !s.closed
}

func (s *subscription) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.pending, s.last = nil, nil
}

func (o *observers) panicked(r any, e Event) {
	o.panics.Add(1)
	add(o.m.telemetry.observerPanics, 1, &o.m.telemetry.base)
	o.m.log(slog.LevelError, "leasing: an observer panicked", "panic", r, "event", e.Kind, "lease", e.Name)
}

func (o *observers) started(s *subscription) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy[s] = struct{}{}
}

func (o *observers) stopped(s *subscription) {
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

// flush waits until all events have been delivered, for a bounded time.
func (o *observers) flush(bound time.Duration) {
	if o.log != nil {
		o.log.add(&Event{Kind: logEnd})
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

// stuck counts the observers that have been busy with one event for too long.
func (o *observers) stuck() (n int) {
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
