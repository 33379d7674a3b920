package torture

import (
	"slices"
	"sync"
	"time"
)

// journal takes what a run records: an Operation, Hold, Write, Fault or Violation.
// Operations and holds are entered when they begin and again as they go on, so that
// those of a process that is killed are not lost. It is safe for concurrent use.
type journal interface{ enter(what any) }

// book is the journal of a run.
type book struct {
	mu         sync.Mutex
	operations map[place]Operation
	holds      map[string]Hold // by claim
	writes     []Write
	faults     []Fault
	found      []Violation
	stops      []Stop
	dead       []int
}

// place is where an operation stands among all: its worker, and its number there.
type place struct{ worker, number int }

func newBook() *book { return &book{operations: map[place]Operation{}, holds: map[string]Hold{}} }

func (b *book) enter(what any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := what.(type) {
	case Operation:
		b.operations[place{e.Worker, e.Number}] = e
	case Hold:
		b.holds[e.Claim] = e
	case Write:
		b.writes = append(b.writes, e)
	case Fault:
		b.faults = append(b.faults, e)
	case Violation:
		b.found = append(b.found, e)
	}
}

// history is what was entered so far, in order, and with labels for the claims' IDs.
func (b *book) history() *History {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &History{Writes: slices.Clone(b.writes), Faults: slices.Clone(b.faults), Stops: slices.Clone(b.stops), Killed: slices.Clone(b.dead)}
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
func (b *book) violations() []Violation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.found)
}

// count is how much there is so far.
func (b *book) count() (p Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.Faults, p.Operations, p.Grants = len(b.faults), len(b.operations), len(b.holds)
	for _, t := range b.holds {
		if t.Ending == EndingLost {
			p.Losses++
		}
	}
	return p
}

func (b *book) stopped(s Stop) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stops = append(b.stops, s)
}

// killed ends the holds of a worker whose process was killed.
func (b *book) killed(worker int, at time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead = append(b.dead, worker)
	for claim, t := range b.holds {
		if t.Worker == worker && t.Ending == "" {
			t.Ending = EndingKilled
			t.endAt(at)
			b.holds[claim] = t
		}
	}
}
