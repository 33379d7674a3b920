package torture

import (
	"slices"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
)

// journal takes what a run records: an operation, hold, write, fault or Violation.
// Operations and holds are entered when they begin and again as they go on, so that
// those of a process that is killed are not lost. It is safe for concurrent use.
type journal interface{ enter(what any) }

// recording is the journal of a run.
type recording struct {
	mu         sync.Mutex
	operations map[place]operation
	holds      map[string]hold // by claim
	writes     []write
	faults     []fault
	found      []Violation
	stops      []stop
	dead       []int
}

// place is where an operation stands among all: its worker, and its number there.
type place struct{ worker, number int }

func newRecording() *recording {
	return &recording{operations: map[place]operation{}, holds: map[string]hold{}}
}

func (b *recording) enter(what any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := what.(type) {
	case operation:
		b.operations[place{e.Worker, e.Number}] = e
	case hold:
		b.holds[e.Claim] = e
	case write:
		b.writes = append(b.writes, e)
	case fault:
		b.faults = append(b.faults, e)
	case Violation:
		b.found = append(b.found, e)
	}
}

// history is what was entered so far, in order, and with labels for the claims' IDs.
func (b *recording) history() *history {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &history{Writes: slices.Clone(b.writes), Faults: slices.Clone(b.faults), Stops: slices.Clone(b.stops), Killed: slices.Clone(b.dead)}
	for _, o := range b.operations {
		h.Operations = append(h.Operations, o)
	}
	for _, t := range b.holds {
		h.Holds = append(h.Holds, t)
	}
	h.label()
	h.sort()
	return h
}

// violations are those that are no part of the history.
func (b *recording) violations() []Violation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.found)
}

// count is how much there is so far.
func (b *recording) count() (p Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.Faults, p.Operations, p.Grants = len(b.faults), len(b.operations), len(b.holds)
	for _, t := range b.holds {
		if t.Ending == endingLost {
			p.Losses++
		}
	}
	return p
}

func (b *recording) stopped(s stop) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stops = append(b.stops, s)
}

// killed ends the holds of a worker whose process was killed.
func (b *recording) killed(worker int, at time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead = append(b.dead, worker)
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

	mu   sync.Mutex
	hold hold
}

// observe is the lease's observer.
func (h *holdRecorder) observe(e leasing.Event) {
	h.change(func(t *hold) {
		switch e.Kind {
		case leasing.EventAcquired, leasing.EventRenewed:
			t.Until = max(t.Until, h.clock.at(e.Time)+e.Remaining)
			t.Renewals = e.Renewals
		case leasing.EventLost:
			t.Reason, t.Renewals = e.Reason, e.Renewals
			t.endAt(h.clock.at(e.Time))
		}
	})
}

// begin is when the acquire has returned.
func (h *holdRecorder) begin(l leasing.Lease) {
	h.change(func(t *hold) {
		t.From, t.Claim, t.Token = h.clock.now(), l.ID(), l.Token()
		t.Until = max(t.Until, t.From+l.Remaining()) // the event may come later
	})
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
