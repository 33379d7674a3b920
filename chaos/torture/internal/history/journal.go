package history

import (
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
)

// Journal stores the items that a run records. An item is an Operation, Hold, Write, Wait, Reading, Answer, Observation,
// Fault, Stop, Killed or Violation. Operations, holds and waits are entered when they begin and again when they change, so
// that the items of a killed process are not lost. It is safe for concurrent use.
type Journal interface{ Enter(what any) }

// Killed records that a worker's process was killed.
type Killed struct {
	Worker int
	At     time.Duration
}

// Progress is the state of a run in progress.
type Progress struct {
	Elapsed, For time.Duration
	Phase        string // "running", "closing", "waiting for names", "checking"
	Grants       int
	Losses       int
	Faults       int
	Operations   int
}

// Recording is the journal of a run.
type Recording struct {
	mu      sync.Mutex
	entries []any
	count   Progress
}

func (b *Recording) Enter(what any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries = append(b.entries, what)
	switch e := what.(type) {
	case Operation:
		if e.Layer == LayerClient && e.Return == 0 {
			b.count.Operations++
		}
	case Observation:
		if e.Own && e.Kind == leasing.EventAcquired {
			b.count.Grants++
		}
		if e.Own && e.Kind == leasing.EventLost {
			b.count.Losses++
		}
	case Fault:
		b.count.Faults++
	}
}

// Progress returns the counts so far.
func (b *Recording) Progress() Progress {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// Collect returns the items so far as a history, sorted, with labels in place of the claims' IDs.
func (b *Recording) Collect() *History {
	b.mu.Lock()
	entries := b.entries
	b.mu.Unlock()
	type number struct{ worker, n int }
	operations, waits, holds, h := map[number]int{}, map[number]int{}, map[string]int{}, new(History)
	for i, entry := range entries {
		switch e := entry.(type) {
		case Operation:
			now, before := put(&h.Operations, operations, number{e.Worker, e.Number}, e)
			if now.Begun = i + 1; before != nil {
				now.Begun, now.Ended = before.Begun, i+1
			}
		case Wait:
			put(&h.Waits, waits, number{e.Worker, e.Number}, e)
		case Hold:
			put(&h.Holds, holds, e.Claim, e)
		case Write:
			h.Writes = append(h.Writes, e)
		case Reading:
			h.Readings = append(h.Readings, e)
		case Answer:
			h.Answers = append(h.Answers, e)
		case Observation:
			h.Observed = append(h.Observed, e)
		case Fault:
			h.Faults = append(h.Faults, e)
		case Stop:
			h.Stops = append(h.Stops, e)
		case Violation:
			h.Found = append(h.Found, e)
		case Killed:
			h.kill(e)
		}
	}
	h.label()
	h.sort()
	return h
}

// put adds an item, or replaces the earlier item with the same key.
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
func (h *History) kill(k Killed) {
	h.Killed = append(h.Killed, k.Worker)
	for i := range h.Holds {
		if t := &h.Holds[i]; t.Worker == k.Worker && t.Ending == "" {
			t.Ending = EndingKilled
			t.EndAt(k.At)
		}
	}
}
