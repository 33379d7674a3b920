package torture

import (
	"slices"
	"sync"
	"time"
)

// entry is one line of the record. Operations and holds are entered when they
// begin and again as they go on, under the same key, so that those of a process
// that is killed are not lost.
type entry struct {
	Key       string     `json:"key,omitempty"`
	Operation *Operation `json:"operation,omitempty"`
	Hold      *Hold      `json:"hold,omitempty"`
	Fault     *Fault     `json:"fault,omitempty"`
}

// journal takes entries. Its implementations are safe for concurrent use.
type journal interface{ enter(entry) }

// book is the journal of a run.
type book struct {
	mu         sync.Mutex
	operations map[string]*Operation
	holds      map[string]*Hold
	faults     []Fault
	stops      []Stop
	dead       []int
}

func newBook() *book {
	return &book{operations: map[string]*Operation{}, holds: map[string]*Hold{}}
}

func (b *book) enter(e entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case e.Operation != nil:
		o := *e.Operation
		b.operations[e.Key] = &o
	case e.Hold != nil:
		t := *e.Hold
		b.holds[e.Key] = &t
	case e.Fault != nil:
		b.faults = append(b.faults, *e.Fault)
	}
}

// history is what was entered so far, in no order yet.
func (b *book) history() *History {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &History{Faults: slices.Clone(b.faults), Stops: slices.Clone(b.stops), Killed: slices.Clone(b.dead)}
	for _, o := range b.operations {
		h.Operations = append(h.Operations, *o)
	}
	for _, t := range b.holds {
		h.Holds = append(h.Holds, *t)
	}
	return h
}

// count is how much there is so far.
func (b *book) count() (p Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.holds {
		p.Grants++
		if t.Ending == EndingLost {
			p.Losses++
		}
	}
	p.Faults, p.Operations = len(b.faults), len(b.operations)
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
	for _, t := range b.holds {
		if t.Worker == worker && t.Ending == "" {
			t.Ending = EndingKilled
			if t.End == 0 || at < t.End {
				t.End = at
			}
		}
	}
}
