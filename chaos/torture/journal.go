package torture

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
)

// journal stores the items that a run records: an operation, hold, write, wait, sight, word, notice, fault, stop,
// killed or Violation. Operations, holds and waits are entered when they begin and again as
// they go on, so that the items of a killed process are not lost. It is safe for
// concurrent use.
type journal interface{ enter(what any) }

// killed records the kill of a worker's process.
type killed struct {
	Worker int
	At     time.Duration
}

// recording is the journal of a run.
type recording struct {
	mu      sync.Mutex
	entries []any
	count   Progress
}

func (b *recording) enter(what any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries = append(b.entries, what)
	switch e := what.(type) {
	case operation:
		if e.Layer == layerClient && e.Return == 0 {
			b.count.Operations++
		}
	case notice:
		if e.Own && e.Kind == leasing.EventAcquired {
			b.count.Grants++
		}
		if e.Own && e.Kind == leasing.EventLost {
			b.count.Losses++
		}
	case fault:
		b.count.Faults++
	}
}

// progress returns the counts so far.
func (b *recording) progress() Progress {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// collect returns the items so far, in order, and with labels for the claims' IDs.
func (b *recording) collect() *history {
	b.mu.Lock()
	entries := b.entries
	b.mu.Unlock()
	type number struct{ worker, n int }
	operations, waits, holds, h := map[number]int{}, map[number]int{}, map[string]int{}, new(history)
	for i, entry := range entries {
		switch e := entry.(type) {
		case operation:
			now, before := put(&h.Operations, operations, number{e.Worker, e.Number}, e)
			if now.Begun = i + 1; before != nil {
				now.Begun, now.Ended = before.Begun, i+1
			}
		case wait:
			put(&h.Waits, waits, number{e.Worker, e.Number}, e)
		case hold:
			put(&h.Holds, holds, e.Claim, e)
		case write:
			h.Writes = append(h.Writes, e)
		case sight:
			h.Sights = append(h.Sights, e)
		case word:
			h.Words = append(h.Words, e)
		case notice:
			h.Notices = append(h.Notices, e)
		case fault:
			h.Faults = append(h.Faults, e)
		case stop:
			h.Stops = append(h.Stops, e)
		case Violation:
			h.Found = append(h.Found, e)
		case killed:
			h.kill(e)
		}
	}
	h.label()
	h.sort()
	return h
}

// put adds an item, or replaces the item that was entered before under its key.
func put[K comparable, T any](all *[]T, places map[K]int, key K, one T) (now, before *T) {
	at, again := places[key]
	if !again {
		places[key] = len(*all)
		*all = append(*all, one)
		return &(*all)[len(*all)-1], nil
	}
	old := (*all)[at]
	(*all)[at] = one
	return &(*all)[at], &old
}

// kill ends the holds of a worker whose process was killed.
func (h *history) kill(k killed) {
	h.Killed = append(h.Killed, k.Worker)
	for i := range h.Holds {
		if t := &h.Holds[i]; t.Worker == k.Worker && t.Ending == "" {
			t.Ending = endingKilled
			t.endAt(k.At)
		}
	}
}

// holdRecorder enters a hold as it goes on, from its manager's events and from its holder's
// actions.
type holdRecorder struct {
	clock   *clock
	journal journal
	working atomic.Bool // Do's function is running

	failures int // of renewals in a row, by the observer's events

	mu    sync.Mutex
	hold  hold
	lease *leasing.Lease // nil before the acquire has returned
	heard time.Duration  // the end of the lease's context; 0 before
}

// observe is the lease's observer.
func (h *holdRecorder) observe(e leasing.Event) {
	tell(h.journal, h.clock, h.hold.Worker, e, true)
	h.failed(e)
	h.change(func(t *hold) {
		t.Renewals = max(t.Renewals, e.Renewals)
		t.Renewed, t.RenewalFailed = t.Renewed || e.Kind == leasing.EventRenewed, t.RenewalFailed || e.Kind == leasing.EventRenewalFailed
		if e.Kind == leasing.EventLost {
			t.Reason = e.Reason
			t.endAt(h.clock.at(e.Time))
		}
	})
	h.mu.Lock()
	l := h.lease
	h.mu.Unlock()
	if l != nil {
		l.Remaining() // an observer may call its lease
	}
}

// tell enters an observer's events of the beginning and the end of a lease, and of failed acquires.
func tell(to journal, clock *clock, worker int, e leasing.Event, own bool) {
	switch e.Kind {
	case leasing.EventAcquired, leasing.EventLost, leasing.EventReleased, leasing.EventHandedOver, leasing.EventAcquireFailed:
		to.enter(notice{Worker: worker, Name: e.Name, Claim: e.Fingerprint.String(), Kind: e.Kind, Reason: e.Reason, By: by(e.BrokenBy, e.BreakReason), At: clock.at(e.Time), Own: own, Times: e.Coalesced})
	}
}

// failed finds events of failed renewals with a wrong count, or with an unspecific error.
func (h *holdRecorder) failed(e leasing.Event) {
	text := ""
	switch e.Kind {
	case leasing.EventRenewed:
		h.failures = 0
	case leasing.EventRenewalFailed:
		if h.failures += e.Coalesced; e.Attempt != h.failures {
			text = fmt.Sprintf("as the %dth", e.Attempt)
		}
		if resultOf(e.Err) == resultUnknown && !errors.Is(e.Err, leasing.ErrUnavailable) {
			text = fmt.Sprintf("with the error %q", e.Err)
		}
	}
	if text != "" {
		h.journal.enter(Violation{Check: checkEvents, Name: e.Name, At: h.clock.at(e.Time), Text: fmt.Sprintf("the observer of worker %d was told of the %dth renewal in a row that has failed %s", h.hold.Worker, h.failures, text)})
	}
}

// begin records the return of the acquire.
func (h *holdRecorder) begin(l *leasing.Lease) {
	h.change(func(t *hold) {
		t.From, t.Claim, t.Token = h.clock.now(), claimOf(l.ID()), l.Token()
		h.lease = l
		context.AfterFunc(l.Context(), h.hear) // the worker may be waiting for an answer
	})
}

func (h *holdRecorder) hear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = h.clock.now()
}

// inUse reports whether the lease's context has not ended, or Do's function is running.
func (h *holdRecorder) inUse() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease.Context().Err() == nil || h.working.Load()
}

// end records the time at which the holder stops, and the reason.
func (h *holdRecorder) end(why ending) {
	h.change(func(t *hold) {
		t.Ending = why
		t.endAt(h.clock.now())
	})
}

// told records the time at which the holder sees the loss of its lease, or the earlier end of the lease's context.
func (h *holdRecorder) told(at time.Duration) {
	h.change(func(t *hold) {
		if h.heard != 0 {
			at = min(at, h.heard)
		}
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

// change applies and enters a change. It does not enter a lease before its acquire has returned.
func (h *holdRecorder) change(what func(*hold)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	what(&h.hold)
	if h.hold.Claim != "" {
		h.journal.enter(h.hold)
	}
}
