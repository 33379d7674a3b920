package waiting

import (
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
)

// pushedPollFactor is the multiple of MaxPoll that bounds the pause between two requests where the backend pushes wake-ups.
const pushedPollFactor = 10

// Rules are the settings that the waiters of a manager share. They do not change.
type Rules struct {
	MinPoll, MaxPoll time.Duration // see leasing.Tuning
	RefusalTimeout   time.Duration // see leasing.Options
	Wakeups          bool          // the provider pushes wake-ups
	Queued           bool          // the backend keeps a queue of waiters
}

// maxPushedPause returns the longest pause with wake-ups.
func (r *Rules) maxPushedPause() time.Duration {
	return min(r.MaxPoll, trust.Forever/pushedPollFactor) * pushedPollFactor
}

// Queue has the waiters for one name, and remembers the leases of the name. T is a waiter and L a lease of this process; a zero
// value means no waiter or no lease. An input may return the waiter to be woken: a new head, or the head for its next request.
type Queue[T, L comparable] struct {
	rules        *Rules
	waiters      []T
	hasHead      bool      // the first waiter is the head
	blocked      bool      // an earlier head's last request is not settled yet
	holder       L         // as far as the queue knows
	refusedSince time.Time // since when the backend has answered only with refusals; zero if the latest answer was not a refusal
	yield        yieldState
}

// New returns a queue without waiters.
func New[T, L comparable](rules *Rules) *Queue[T, L] {
	return &Queue[T, L]{rules: rules, yield: yieldState{yields: firstYields}}
}

// Idle reports whether the queue has no waiter and is not blocked. It may then be dropped.
func (q *Queue[T, L]) Idle() bool { return len(q.waiters) == 0 && !q.blocked }

// Waiters returns the waiters in order of arrival.
func (q *Queue[T, L]) Waiters() []T { return q.waiters }

// Holder returns the lease of this process that has the name, as far as the queue knows.
func (q *Queue[T, L]) Holder() L { return q.holder }

// Join notes that a waiter arrives. It reports whether the waiter is the head.
func (q *Queue[T, L]) Join(t T) (head bool) {
	head = q.Idle()
	q.hasHead = q.hasHead || head
	q.waiters = append(q.waiters, t)
	return head
}

// Leave notes that a waiter gives up its place. won is the waiter's lease, or zero, and id is the ID of its claim.
// unresolved reports whether the outcome of a request is unknown: it may have been applied, or may be applied later.
// If blocks is true, Settled has to follow.
func (q *Queue[T, L]) Leave(t T, won L, id string, unresolved bool) (blocks bool, wake T) {
	i := slices.Index(q.waiters, t)
	q.waiters = slices.Delete(q.waiters, i, i+1)
	if won != *new(L) {
		q.refusedSince = time.Time{}
		if q.holder = won; !q.rules.Queued {
			q.yield.latest = abstractions.FingerprintOf(id)
		}
	}
	if i == 0 && q.hasHead {
		q.hasHead, blocks = false, unresolved
	}
	q.blocked = q.blocked || blocks
	return blocks, q.promote()
}

// Settled notes that the first try of the clean-up after a head is over.
func (q *Queue[T, L]) Settled() (wake T) {
	q.blocked = false
	return q.promote()
}

// promote gives the first waiter its turn.
func (q *Queue[T, L]) promote() (wake T) {
	switch {
	case q.blocked:
	case len(q.waiters) == 0:
		*q = Queue[T, L]{rules: q.rules, yield: q.yield}
	case !q.hasHead:
		q.hasHead, wake = true, q.waiters[0]
	}
	return wake
}

// Ending notes that the release of a lease of ours is about to be sent. Where the backend keeps a queue the head
// asks at the same time: if its request overtakes the release, the head is a registered waiter when the release arrives.
func (q *Queue[T, L]) Ending(l L) (wake T) {
	if q.rules.Queued && q.holder == l {
		return q.Wake()
	}
	return wake
}

// Ended notes that a lease of ours has ended. The head asks at once or, while the process yields, later by Wake.
func (q *Queue[T, L]) Ended(l L, acquired, now time.Time) (wake T, later time.Duration) {
	if q.holder != l && q.holder != *new(L) { // another lease of ours already has the name
		return wake, 0
	}
	q.holder = *new(L)
	if !q.rules.Queued {
		if later = q.yield.addLease(acquired, now, q.rules); later > 0 {
			return wake, later
		}
	}
	return q.Wake(), 0
}

// Wake returns the head. It also notes that the yield time is over. The first waiter of a blocked queue asks when its turn
// comes.
func (q *Queue[T, L]) Wake() (wake T) {
	if q.hasHead {
		return q.waiters[0]
	}
	return wake
}

// Begin notes that the head begins. holder is nil, or the error that a lease of ours has the name.
func (q *Queue[T, L]) Begin(now time.Time, holder error) (Head, Step) {
	pause := q.rules.MaxPoll
	if q.holder == *new(L) {
		pause = q.yield.yieldUntil.Sub(now)
		q.yield.yieldUntil = time.Time{}
	}
	switch {
	case pause > 0:
		return Head{rules: q.rules, last: Answer{Err: holder}}, Step{Pause: pause}
	case q.rules.Wakeups && now.Sub(q.yield.contendedAt) <= q.rules.maxPushedPause(): // to subscribe first saves the request that would follow a later subscription
		return Head{rules: q.rules}, Step{Subscribe: true}
	}
	return Head{rules: q.rules}, Step{Ask: true}
}

// Answered notes that a request of the head has ended without the lease. It reports whether the backend has answered only with
// refusals for RefusalTimeout. An outage does not count as an answer.
func (q *Queue[T, L]) Answered(now time.Time, a *Answer) (refusedTooLong bool) {
	if a.Refused {
		if q.refusedSince.IsZero() {
			q.refusedSince = now
		}
		return now.Sub(q.refusedSince) >= q.rules.RefusalTimeout
	}
	if a.Held != nil || a.Throttled {
		q.refusedSince = time.Time{}
	}
	if a.Held != nil && q.holder == *new(L) {
		q.yield.noteHolder(a.Held.Holder.Fingerprint, now)
	}
	return false
}
