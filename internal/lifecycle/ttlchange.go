package lifecycle

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
)

// ttlChange has the TTLs of the renewals of a lease; a lease whose TTL never changes needs no ttlChange.
//
// Once it is sent, a renewal that asks for a shorter TTL may end the lease sooner than an earlier grant says. A renewal without
// an answer may land at any time, even after a later renewal for a longer TTL. So the trust is based on the shortest TTL of all
// renewals without an answer, until the end of the lease.
type ttlChange struct {
	version    int // counts the calls of WantTTL
	carried    int // the version of the latest renewal that was sent
	granted    int // the latest version that the backend confirmed
	asked      time.Duration
	longest    time.Duration // the longest TTL of all requests
	unanswered time.Duration // the shortest TTL of a renewal without an answer; Infinite if each was answered
}

// trustLimit returns the longest TTL for which a grant may be trusted.
func (t *ttlChange) trustLimit() time.Duration {
	if t == nil {
		return abstractions.Infinite
	}
	return t.unanswered
}

// longestTTL returns the longest TTL that a renewal may have set at the backend.
func (t *ttlChange) longestTTL() time.Duration {
	if t == nil {
		return 0
	}
	return t.longest
}

// carryTTL notes the TTL of a renewal that is about to be sent. From now on the lease is trusted for no longer than that
// renewal's TTL. carryTTL reports whether the trust became shorter.
func (l *Lease) carryTTL(ttl time.Duration, sent trust.Instant) (shorter bool) {
	t := l.ttlChange
	t.carried, t.asked, t.longest = t.version, ttl, max(t.longest, ttl)
	if until := l.until.Sooner(sent.Add(l.rules.Window(ttl))); until != l.until {
		l.until = until
		return true
	}
	return false
}

// noteSuccess notes a grant, and returns the TTL for which it is trusted.
func (t *ttlChange) noteSuccess(granted time.Duration) time.Duration {
	t.granted = t.carried
	return min(granted, t.unanswered)
}

// noteUnanswered notes that the latest renewal got no answer.
func (t *ttlChange) noteUnanswered() { t.unanswered = min(t.unanswered, t.asked) }

// WantTTL makes the next renewals ask for the TTL of the changed settings. It returns the version of the change.
func (l *Lease) WantTTL(changed *Settings) (version int) {
	if l.ttlChange == nil {
		l.ttlChange = &ttlChange{asked: l.settings.TTL, longest: max(l.settings.TTL, l.settings.FirstTTL), unanswered: abstractions.Infinite}
		if l.renewalUnanswered {
			l.ttlChange.unanswered = l.settings.TTL
		}
	}
	l.settings = changed
	l.ttlChange.version++
	return l.ttlChange.version
}

// TTLVersions returns the latest version of WantTTL that the backend has granted, and the latest that a renewal carried.
func (l *Lease) TTLVersions() (granted, carried int) { return l.ttlChange.granted, l.ttlChange.carried }
