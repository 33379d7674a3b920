package leasing

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
)

// terms are the TTLs of the renewals of a lease; a lease whose TTL never changes needs no terms. They are guarded by the
// lease's mu.
//
// A renewal that asks for a shorter TTL may end the lease sooner than an earlier grant says, from when it was sent.
// If it gets no answer, it may land at any time, also after a later renewal for a longer TTL. So trust counts with the
// shortest TTL of all renewals without an answer, until the end of the lease.
type terms struct {
	version  int // counts the calls of SetTTL
	carried  int // the version of the latest renewal that was sent
	granted  int // the latest version that the backend confirmed
	asked    time.Duration
	longest  time.Duration // TTL of all requests
	doubtful time.Duration // the shortest without an answer; Infinite if each was answered
}

// least returns the longest TTL that any grant is worth.
func (t *terms) least() time.Duration {
	if t == nil {
		return Infinite
	}
	return t.doubtful
}

// most returns the longest TTL that a renewal may have left at the backend.
func (t *terms) most() time.Duration {
	if t == nil {
		return 0
	}
	return t.longest
}

// carry notes the TTL of a renewal that is about to be sent. The lease is trusted no longer than that renewal's TTL
// from now on. Caller holds mu.
func (t *terms) carry(l *lease, req *abstractions.RenewRequest, sent trust.Instant) {
	t.carried, t.asked, t.longest = t.version, req.TTL, max(t.longest, req.TTL)
	if until := l.until.Sooner(sent.Add(l.m.options.window(req.TTL))); until != l.until {
		l.until = until
		l.reschedule(sent)
	}
}

// renewed notes a grant, and returns the TTL for which it is trusted. Caller holds mu.
func (t *terms) renewed(granted time.Duration) time.Duration {
	t.granted = t.carried
	return min(granted, t.doubtful)
}

// doubted notes that the latest renewal got no answer. Caller holds mu.
func (t *terms) doubted() { t.doubtful = min(t.doubtful, t.asked) }

// SetTTL is a renewal that asks for another TTL. It shares everything with Renew.
func (l *lease) SetTTL(ctx context.Context, ttl time.Duration) error {
	version, err := l.wantTTL(ttl)
	if err != nil {
		return l.m.wrap("renew", l.name, l.id, err)
	}
	for attempt := 1; ; attempt++ {
		err := l.Renew(ctx)
		l.mu.Lock()
		granted, carried := l.terms.granted, l.terms.carried
		l.mu.Unlock()
		if granted >= version {
			return nil
		}
		if err != nil && (carried >= version || attempt > 1) {
			return err
		}
		// The renewal that Renew joined was sent before the TTL was wanted.
	}
}

// wantTTL has the next renewals ask for ttl, and returns the version of that change.
func (l *lease) wantTTL(ttl time.Duration) (version int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase >= releasing {
		return 0, l.ended()
	}
	changed, err := l.m.options.withTTL(l.settings, ttl, l.m.caps)
	if err != nil {
		return 0, err
	}
	if l.terms == nil {
		l.terms = &terms{asked: l.settings.ttl, longest: max(l.settings.ttl, l.settings.firstTTL), doubtful: Infinite}
		if l.unsure {
			l.terms.doubtful = l.settings.ttl
		}
	}
	l.settings = changed
	l.terms.version++
	return l.terms.version, nil
}
