package waiting

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// A program that acquires one name again and again leaves no time in which a process that polls could find the name free. So a
// manager tracks runs: leases of one name that follow each other closely. When a run has lasted for a while, the manager leaves
// the name alone for the yield time: a quarter of a lease's time, at least MinPoll and at most MaxPoll. A waiter that sees the
// name change hands polls about once in that time (see Head.backoff). While no other process is seen to want the name, a run may
// last for firstYields yield times at first, and later for up to maxYields. Yielding then costs a lone process 1 % of its time.
// Once others were seen to hold the name, a run may last for contendedYields yield times. Where the backend keeps a queue of
// waiters, the manager does not yield: the backend reserves the name for its first waiter.
const (
	firstYields     = 10
	maxYields       = 100
	contendedYields = 2
)

// yieldState is a run of this process's leases of a name, and the time of the latest request that found the name held by others.
type yieldState struct {
	latest      abstractions.Fingerprint // of our latest lease; zero where the backend keeps a queue
	since       time.Time                // when the first lease of the run was acquired
	ended       time.Time                // when the latest lease ended
	leases      int                      // in the run
	yields      int                      // yield times for which the run may last
	yieldUntil  time.Time                // until this time others get their turn
	contendedAt time.Time                // when our last request found another holder
}

// noteHolder notes that a claim, perhaps of another process, has the name.
func (s *yieldState) noteHolder(claim abstractions.Fingerprint, now time.Time) {
	if s.latest != claim {
		s.contendedAt, s.leases, s.yields = now, 0, contendedYields
	}
}

// addLease adds a lease of ours to the run, and returns the time for which to leave the name alone, which may be 0.
func (s *yieldState) addLease(acquired, ended time.Time, rules *Rules) (pause time.Duration) {
	if s.leases == 0 || acquired.Sub(s.ended) >= s.yieldTime(rules) {
		s.since, s.leases = acquired, 0
	}
	s.leases++
	s.ended = ended
	pause = s.yieldTime(rules)
	if ended.Sub(s.since)/time.Duration(s.yields) < pause {
		return 0
	}
	s.yields = min(s.yields+max(1, s.yields/4), maxYields)
	s.leases = 0
	s.yieldUntil = ended.Add(pause)
	return pause
}

// yieldTime returns the time for which the name is left alone.
func (s *yieldState) yieldTime(rules *Rules) time.Duration {
	return min(max(s.ended.Sub(s.since)/time.Duration(4*max(1, s.leases)), rules.MinPoll), rules.MaxPoll)
}
