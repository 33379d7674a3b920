package torture

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
)

// journal takes what a run records: an operation, hold, write, wait, sight, notice, fault or
// Violation. Operations, holds and waits are entered when they begin and again as they go
// on, so that those of a process that is killed are not lost. It is safe for concurrent use.
type journal interface{ enter(what any) }

// recording is the journal of a run.
type recording struct {
	mu         sync.Mutex
	operations map[int][]operation // of each worker, by its number
	waits      map[int][]wait      // of each worker, by its number
	order      int                 // of the latest call or return
	holds      map[string]hold     // by claim
	count      Progress
	history    history // the rest
	found      []Violation
}

func newRecording() *recording {
	return &recording{operations: map[int][]operation{}, waits: map[int][]wait{}, holds: map[string]hold{}}
}

// place returns where the n-th of some items is, from 1.
func place[T any](all *[]T, n int) *T {
	for len(*all) < n {
		*all = append(*all, *new(T))
	}
	return &(*all)[n-1]
}

func (b *recording) enter(what any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := what.(type) {
	case operation:
		all := b.operations[e.Worker]
		one := place(&all, e.Number)
		b.order++
		if one.Number == 0 {
			e.Begun = b.order
			if e.Layer == layerClient {
				b.count.Operations++
			}
		} else {
			e.Begun, e.Ended = one.Begun, b.order
		}
		*one, b.operations[e.Worker] = e, all
	case wait:
		all := b.waits[e.Worker]
		*place(&all, e.Number) = e
		b.waits[e.Worker] = all
	case hold:
		b.enterHold(e)
	case write:
		b.history.Writes = append(b.history.Writes, e)
	case sight:
		b.history.Sights = append(b.history.Sights, e)
	case notice:
		b.history.Notices = append(b.history.Notices, e)
	case fault:
		b.history.Faults = append(b.history.Faults, e)
		b.count.Faults++
	case Violation:
		b.found = append(b.found, e)
	}
}

// enterHold enters a hold, and counts it. Caller holds mu.
func (b *recording) enterHold(e hold) {
	before, known := b.holds[e.Claim]
	if !known {
		b.count.Grants++
	}
	if e.Ending == endingLost && before.Ending != endingLost {
		b.count.Losses++
	}
	b.holds[e.Claim] = e
}

// collect returns what was entered so far, in order, and with labels for the claims' IDs.
func (b *recording) collect() *history {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.history
	h.Writes, h.Sights, h.Notices = slices.Clone(h.Writes), slices.Clone(h.Sights), slices.Clone(h.Notices)
	h.Faults, h.Stops, h.Killed = slices.Clone(h.Faults), slices.Clone(h.Stops), slices.Clone(h.Killed)
	for _, all := range b.operations {
		for _, o := range all {
			if o.Number > 0 {
				h.Operations = append(h.Operations, o)
			}
		}
	}
	for _, all := range b.waits {
		h.Waits = append(h.Waits, all...)
	}
	for _, t := range b.holds {
		h.Holds = append(h.Holds, t)
	}
	h.label()
	h.sort()
	return &h
}

// violations are those that are no part of the history.
func (b *recording) violations() []Violation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.found)
}

// progress is how much there is so far.
func (b *recording) progress() Progress {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

func (b *recording) stopped(s stop) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history.Stops = append(b.history.Stops, s)
}

// killed ends the holds of a worker whose process was killed.
func (b *recording) killed(worker int, at time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history.Killed = append(b.history.Killed, worker)
	for claim, t := range b.holds {
		if t.Worker == worker && t.Ending == "" {
			t.Ending = endingKilled
			t.endAt(at)
			b.holds[claim] = t
		}
	}
}

// holdRecorder enters a hold as it goes on: from its manager's events and from what
// its holder does.
type holdRecorder struct {
	clock   *clock
	journal journal
	working atomic.Bool // Do's function is under way

	mu   sync.Mutex
	hold hold
	ctx  context.Context // the lease's, once there is one
}

// observe is the lease's observer.
func (h *holdRecorder) observe(e leasing.Event) {
	tell(h.journal, h.clock, h.hold.Worker, e, true)
	h.change(func(t *hold) {
		t.Renewals = max(t.Renewals, e.Renewals)
		if e.Kind == leasing.EventLost {
			t.Reason = e.Reason
			t.endAt(h.clock.at(e.Time))
		}
	})
}

// tell enters what an observer is told of the beginning and the end of a lease.
func tell(to journal, clock *clock, worker int, e leasing.Event, own bool) {
	switch e.Kind {
	case leasing.EventAcquired, leasing.EventLost, leasing.EventReleased, leasing.EventHandedOver:
		to.enter(notice{Worker: worker, Name: e.Name, Claim: e.ID, Kind: e.Kind, Reason: e.Reason, At: clock.at(e.Time), Own: own})
	}
}

// begin is when the acquire has returned.
func (h *holdRecorder) begin(l leasing.Lease) {
	h.change(func(t *hold) {
		t.From, t.Claim, t.Token = h.clock.now(), l.ID(), l.Token()
		h.ctx = l.Context()
	})
}

// inUse says that the lease's context lives, or that Do's function is under way in a lease
// that was not lost.
func (h *holdRecorder) inUse() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ctx.Err() == nil || h.working.Load() && !errors.Is(context.Cause(h.ctx), leasing.ErrLost)
}

// end is when the holder stops, for the reason given.
func (h *holdRecorder) end(why ending) {
	h.change(func(t *hold) {
		t.Ending = why
		t.endAt(h.clock.now())
	})
}

// told is when the holder sees that its lease is lost.
func (h *holdRecorder) told(at time.Duration) {
	h.change(func(t *hold) {
		t.Ending, t.Told = endingLost, at
		t.endAt(at)
	})
}

// endAt ends a hold, unless it has ended before.
func (t *hold) endAt(at time.Duration) {
	if t.End == 0 || at < t.End {
		t.End = at
	}
}

// change enters a change. A lease that its holder does not know of yet is not entered.
func (h *holdRecorder) change(what func(*hold)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	what(&h.hold)
	if h.hold.Claim != "" {
		h.journal.enter(h.hold)
	}
}
