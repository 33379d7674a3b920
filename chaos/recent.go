package chaos

import (
	"time"
)

// minRecent is the minimum number of names, claims and requests that a wrapper remembers: far more
// than a test uses at a time, and a bound for a test that creates new names forever.
const minRecent = 1 << 16

// recent is a map that drops entries that have not been used for a long time. It has two
// generations of at most half entries each. When the young generation is full, it becomes the old
// one, and the previous old generation is dropped.
type recent[K comparable, V any] struct {
	young, old map[K]V
	half       int
}

func newRecent[K comparable, V any](most int) *recent[K, V] {
	return &recent[K, V]{young: map[K]V{}, half: most / 2}
}

func (r *recent[K, V]) get(key K) (V, bool) {
	value, ok := r.young[key]
	if ok {
		return value, true
	}
	if value, ok = r.old[key]; ok {
		r.put(key, value)
	}
	return value, ok
}

func (r *recent[K, V]) put(key K, value V) {
	if _, ok := r.young[key]; !ok && len(r.young) >= r.half {
		r.young, r.old = make(map[K]V, r.half/8), r.young
	}
	r.young[key] = value
}

// counters count by key.
type counters[K comparable] struct{ *recent[K, int] }

func newCounters[K comparable]() counters[K] { return counters[K]{newRecent[K, int](2 * minRecent)} }

func (c counters[K]) add(key K) int {
	n, _ := c.get(key)
	c.put(key, n+1)
	return n + 1
}

func (c counters[K]) of(key K) int {
	n, _ := c.get(key)
	return n
}

// answers are two earlier answers to the same read: old can be served as a stale read, and so
// can next once it is old enough.
type answers struct {
	old, next answer
}

type answer struct {
	at    time.Duration
	value any
}

// add keeps an answer, unless the latest kept answer is younger than stale.
func (a *answers) add(value any, at, stale time.Duration) {
	if a.next.value != nil && at-a.next.at < stale {
		return
	}
	a.old, a.next = a.next, answer{at, value}
}

// before returns an answer from the given instant or earlier, or nil.
func (a *answers) before(at time.Duration) any {
	if a.next.value != nil && a.next.at <= at {
		return a.next.value
	}
	if a.old.at <= at {
		return a.old.value
	}
	return nil
}

// remember keeps the answer to a read for FaultStaleRead rules.
func (p *Provider) remember(o operation, value any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		if r.Fault.Kind != FaultStaleRead || !r.concerns(o) {
			continue
		}
		known, ok := r.answers.get(o.read)
		if !ok {
			known = new(answers)
			r.answers.put(o.read, known)
		}
		known.add(value, time.Since(p.start), r.Fault.Delay)
	}
}
