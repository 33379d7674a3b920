package waiting

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// A program that takes one name again and again leaves no moment in which a process that polls could find it free. So a manager
// remembers its streak of each name and, when that has lasted for a while, leaves the name alone for a moment: a quarter of a lease's
// time, at least MinPoll and at most MaxPoll. Waiters that see the name change hands poll about that often (see Head.pace). A streak
// may last for streakAlone such moments while no other process is seen to want the name, which costs a lone process 1 % of its time;
// the bound begins with streakFirst and grows. A streak may last for streakShared moments once others were seen to hold the name.
// Where the backend keeps a queue of waiters, there are no such moments: the backend reserves the name for its first waiter.
const (
	streakFirst  = 10
	streakAlone  = 100
	streakShared = 2
)

// streak is the memory of a name that this process has held, or found held by others, a short while ago.
type streak struct {
	current  abstractions.Fingerprint // of our latest lease; zero where the backend keeps a queue
	since    time.Time                // when the first lease of the row was acquired; a row has no moment between its leases
	ended    time.Time                // when the latest lease ended
	leases   int                      // in the row
	moments  int                      // for which the row may last
	yielding time.Time                // others get their turn until then
	fought   time.Time                // of our last request that found another holder
}

// met notes that a claim has the name, perhaps of another process.
func (s *streak) met(claim abstractions.Fingerprint, now time.Time) {
	if s.current != claim {
		s.fought, s.leases, s.moments = now, 0, streakShared
	}
}

// extend adds a lease of ours to the row, and returns the time for which to leave the name alone, which may be 0.
func (s *streak) extend(acquired, ended time.Time, rules *Rules) (pause time.Duration) {
	if s.leases == 0 || acquired.Sub(s.ended) >= s.moment(rules) {
		s.since, s.leases = acquired, 0
	}
	s.leases++
	s.ended = ended
	moment := s.moment(rules)
	if ended.Sub(s.since)/time.Duration(s.moments) < moment {
		return 0
	}
	s.moments = min(s.moments+max(1, s.moments/4), streakAlone)
	s.leases = 0
	s.yielding = ended.Add(moment)
	return moment
}

// moment returns the time for which the name is left alone.
func (s *streak) moment(rules *Rules) time.Duration {
	return min(max(s.ended.Sub(s.since)/time.Duration(4*max(1, s.leases)), rules.MinPoll), rules.MaxPoll)
}
