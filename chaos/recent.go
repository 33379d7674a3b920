package chaos

// kept is how many names, claims and requests a wrapper keeps in mind at least:
// far more than a test has at a time, and a bound for one that makes up new
// names forever.
const kept = 1 << 16

// recent is a map that forgets what has not been used for long. It keeps at
// least the half of max that was used last, in two generations: the old one is
// dropped when the young one is full.
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

func newCounters[K comparable]() counters[K] { return counters[K]{newRecent[K, int](2 * kept)} }

func (c counters[K]) add(key K) int {
	n, _ := c.get(key)
	c.put(key, n+1)
	return n + 1
}

func (c counters[K]) of(key K) int {
	n, _ := c.get(key)
	return n
}
