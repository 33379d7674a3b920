package engine

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// A program that takes one name again and again leaves no moment in which a
// process that polls could find it free. So a manager remembers its streak of
// each name and, when that has lasted for a while, leaves the name alone for a
// moment: a quarter of a lease's time, at least MinPoll and at most MaxPoll.
// Waiters that see the name change hands poll about that often (see
// headWaiter.pace). A streak may last for streakAlone such moments while no other process
// is seen to want the name, which costs a lone process 1 % of its time; the bound begins
// with streakFirst and grows. A streak may last for streakShared moments once
// others were seen to hold the name. Where the backend keeps a queue of waiters,
// there are no such moments: the backend reserves the name for its first waiter.
const (
	streakFirst  = 10
	streakAlone  = 100
	streakShared = 2
)

// maxRecent bounds queues.recent.
const maxRecent = 1024

// streak is a manager's memory of a name that it has held, or found held
// by others, a short while ago.
type streak struct {
	current  abstractions.Fingerprint // of our latest lease
	since    time.Time                // when the first lease of the row was acquired; a row has no moment between its leases
	ended    time.Time                // when the latest lease ended
	leases   int                      // in the row
	moments  int                      // for which the row may last
	yielding time.Time                // others get their turn until then
	fought   time.Time                // of our last request that found another holder
}

// remember returns the streak of a name. Caller holds mu.
func (qs *queues) remember(name string) *streak {
	s := qs.recent[name]
	if s == nil {
		if len(qs.recent) >= maxRecent {
			for other := range qs.recent { // any
				delete(qs.recent, other)
				break
			}
		}
		s = &streak{moments: streakFirst}
		qs.recent[name] = s
	}
	return s
}

// extend adds a lease of ours to the row, and returns the time for which to leave the
// name alone, which may be 0.
func (s *streak) extend(acquired, ended time.Time, shortest, longest time.Duration) (pause time.Duration) {
	if s.leases == 0 || acquired.Sub(s.ended) >= s.moment(shortest, longest) {
		s.since, s.leases = acquired, 0
	}
	s.leases++
	s.ended = ended
	moment := s.moment(shortest, longest)
	if ended.Sub(s.since)/time.Duration(s.moments) < moment {
		return 0
	}
	s.moments = min(s.moments+max(1, s.moments/4), streakAlone)
	s.leases = 0
	s.yielding = ended.Add(moment)
	return moment
}

// moment returns the time for which the name is left alone.
func (s *streak) moment(shortest, longest time.Duration) time.Duration {
	return min(max(s.ended.Sub(s.since)/time.Duration(4*max(1, s.leases)), shortest), longest)
}
