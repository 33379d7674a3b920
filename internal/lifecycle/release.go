package lifecycle

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
)

// AskRelease notes that the holder releases the lease. It returns the lease's previous phase. Only a caller that gets a
// phase earlier than Releasing sends the release. await says that this caller first waits for the renewal under way, because that
// renewal could arrive after the one that shortens the lease.
func (l *Lease) AskRelease(now trust.Instant) (before Phase, await bool, fx Effects) {
	fx = l.Expire(now)
	if before = l.phase; before >= Releasing {
		return before, false, fx
	}
	fx.Cause = l.endWork(abstractions.ErrReleased)
	l.phase = Releasing
	fx.Over = true
	if await = l.renewing && l.atLeastUntil.Left(now) > 0; !await {
		l.settle(&fx) // waiters for the renewal return
	}
	return before, await, fx
}

// AwaitTimedOut notes that the renewal under way did not return while a release waited.
func (l *Lease) AwaitTimedOut() (fx Effects) {
	l.renewalUnanswered = true
	l.settle(&fx)
	return fx
}

// ReleaseBound returns the time for which a release is retried: for as long as the backend may still show the lease as held.
func (l *Lease) ReleaseBound() time.Duration {
	if l.granted == abstractions.Infinite {
		return l.settings.FirstTTL
	}
	return l.granted
}

// Step is the next request of a release.
type Step uint8

// The steps.
const (
	SendRelease Step = iota // release the claim
	Shorten                 // renew it for the rest of AtLeast
	RunOut                  // no request: the lease ends by itself with AtLeast
)

// NextStep returns the next request of a release, and the TTL with which a lease is shortened.
func (l *Lease) NextStep(now trust.Instant) (step Step, ttl time.Duration) {
	rest := l.atLeastUntil.Left(now)
	if rest <= 0 {
		return SendRelease, 0
	}
	end, uncertain := l.backendEnd(now)
	if excess := end.Left(now) - rest; !uncertain && excess >= 0 && excess <= l.rules.Granularity {
		return RunOut, 0
	}
	return Shorten, RoundUp(max(rest, l.rules.MinTTL), l.rules.Granularity)
}

// backendEnd returns the time at which the backend ends the lease by itself. uncertain says that a request without an answer may
// have postponed that time, or may yet postpone it further.
func (l *Lease) backendEnd(now trust.Instant) (end trust.Instant, uncertain bool) {
	return l.sent.Add(l.granted), l.renewalUnanswered || l.mayLand.Left(now) > 0
}

// AfterRelease returns the clean-up after a release that was begun at the given instant. failed says that the backend did not
// confirm the release. retryable says that a later release may succeed, or that this one may still land.
func (l *Lease) AfterRelease(began trust.Instant, failed, retryable bool) *CleanUp {
	end, uncertain := l.backendEnd(began)
	withinAtLeast := l.atLeastUntil.Left(began) > 0
	switch {
	case withinAtLeast && end.Mono != trust.Forever && (!uncertain || l.settings.TTL != abstractions.Infinite):
		return nil // the lease runs out by itself
	case failed && retryable, withinAtLeast && uncertain: // a renewal that lands late makes the lease infinite again
		return &CleanUp{From: l.atLeastUntil, Until: began.Add(l.settings.TTL)}
	case l.mayLand.Left(began) > 0:
		return &CleanUp{Until: l.mayLand, ByID: true}
	}
	return nil
}

// Released notes that the release has ended, with the error that its caller gets.
func (l *Lease) Released(err error) (fx Effects) {
	l.finish(err, &fx)
	fx.Event = Event{Kind: abstractions.EventReleased, Err: err}
	return fx
}
