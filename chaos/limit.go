package chaos

import "time"

// limiter keeps to a budget and a rate.
type limiter struct {
	budget  Budget
	rate    Rate
	total   int
	perName counters[string]
	times   []time.Duration // of the latest faults, at most rate.Count: a ring
	next    int
}

func newLimiter(b Budget, r Rate) limiter {
	return limiter{budget: b, rate: r, perName: newCounters[string]()}
}

// allows reports whether one more fault is within the limits. Take then uses it up.
func (l *limiter) allows(name string, since time.Duration) bool {
	switch {
	case l.budget.Total != 0 && l.total >= l.budget.Total:
		return false
	case l.budget.PerName != 0 && l.perName.of(name) >= l.budget.PerName:
		return false
	case l.rate.Count != 0 && len(l.times) == l.rate.Count:
		return since-l.times[l.next] >= l.rate.Per
	}
	return true
}

func (l *limiter) take(name string, since time.Duration) {
	l.total++
	if l.budget.PerName != 0 {
		l.perName.add(name)
	}
	switch {
	case l.rate.Count == 0:
	case len(l.times) < l.rate.Count:
		l.times = append(l.times, since)
	default:
		l.times[l.next] = since
		l.next = (l.next + 1) % len(l.times)
	}
}
