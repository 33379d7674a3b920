package lifecycle

import (
	"cmp"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
)

// AskRenewal notes that the application wants a renewal. mine reports whether the caller makes that renewal; otherwise
// the caller joins the renewal under way. usedUp reports whether the lease has had all its renewals.
func (l *Lease) AskRenewal() (mine, usedUp bool) {
	if l.Over() || l.renewing {
		return false, false
	}
	return true, l.usedUp()
}

// StartRenewal notes that the caller of AskRenewal makes a renewal.
func (l *Lease) StartRenewal() Effects {
	l.renewing = true
	return Effects{Reschedule: true}
}

// Renewal is a request to be sent.
type Renewal struct {
	TTL      time.Duration
	State    any
	Metadata map[string]string // nil for no change
	Bound    time.Duration     // of the attempt
}

// BeginRenewal notes that a renewal is sent at the given instant. ok is false if the lease has ended.
func (l *Lease) BeginRenewal(sent trust.Instant) (r Renewal, ok bool, fx Effects) {
	fx = l.Expire(sent)
	if l.Over() {
		l.settle(&fx)
		return r, false, fx
	}
	l.lastSent = sent
	r.TTL, r.State = l.renewTTL(sent), l.state
	if l.metadataChange != nil {
		r.Metadata = l.metadataChange.carry()
	}
	if l.ttlChange != nil {
		fx.Reschedule = l.carryTTL(r.TTL, sent)
	}
	r.Bound = AttemptBound(l.until.Left(sent), l.rules.RequestTimeout)
	return r, true, fx
}

// renewTTL returns the TTL of a renewal that is sent at the given instant: the TTL of the settings, or the rest of
// AtLeast if that is longer.
func (l *Lease) renewTTL(sent trust.Instant) time.Duration {
	if l.atLeastUntil == (trust.Instant{}) {
		return l.settings.TTL
	}
	return max(l.settings.TTL, RoundUp(l.atLeastUntil.Left(sent), l.rules.Granularity))
}

// Answer is the result of a renewal. The methods of errors are the provider's code, so the engine reads the facts in an
// error before it makes the input.
type Answer struct {
	Grant     abstractions.Grant
	Err       error
	Lost      *abstractions.LostError      // if the lease is certainly lost
	Applied   bool                         // the request was applied, or may have been, or may yet be
	Permanent bool                         // a retry can't help
	Throttled *abstractions.ThrottledError // if the backend refused for now
}

// Result is the state of a lease after the answer to its renewal.
type Result uint8

// The results.
const (
	Late    Result = iota // the lease had ended before, or is being released
	Renewed               // the lease is trusted for another window
	Failed                // the lease is trusted for the rest of its window, or is lost
)

// Answered notes that a renewal sent at the given instant has ended: it extends the trust, ends the lease, or
// plans the retry. margin is the trust that was left when the renewal succeeded. random is in [0, 1).
func (l *Lease) Answered(sent, now trust.Instant, a *Answer, random float64) (result Result, margin time.Duration, fx Effects) {
	switch {
	case l.Over():
		l.noteLateAnswer(sent, a, &fx)
		return Late, 0, fx
	case a.Err == nil:
		margin = l.until.Left(now)
		l.extend(sent, now, a.Grant, random, &fx)
		return Renewed, margin, fx
	case a.Lost != nil:
		return Failed, 0, l.Lose(a.Lost)
	}
	return Failed, 0, l.noteFailure(now, a, random)
}

// noteLateAnswer notes the result for a release that shortens the lease. It does not change the State of the grant, since the
// release may be reading the State.
func (l *Lease) noteLateAnswer(sent trust.Instant, a *Answer, fx *Effects) {
	fx.CleanUp = l.cleanUpAfterLoss(a.Applied, sent)
	if a.Err == nil {
		l.granted, l.sent = a.Grant.TTL, sent
	}
	l.renewalUnanswered = l.renewalUnanswered || a.Err != nil && a.Applied
	l.settle(fx)
}

// cleanUpAfterLoss returns the clean-up after a renewal that the backend may have granted
// although the lease was lost, or nil if no clean-up is needed.
func (l *Lease) cleanUpAfterLoss(applied bool, sent trust.Instant) *CleanUp {
	lost, ok := l.outcome.(*abstractions.LostError) //nolint:errorlint // as Lose has set it
	if !ok || lost.Reason == abstractions.LostClosed || !applied {
		return nil
	}
	return l.cleanUpAfter(sent)
}

// RepliedLate notes that a request has returned after its caller had left: it may have been applied as late as now.
func (l *Lease) RepliedLate(now trust.Instant, applied bool) (cleanUp *CleanUp) {
	if l.metadataChange != nil {
		l.metadataChange.noteLateReply(now, applied)
	}
	if l.phase == Abandoned {
		if applied {
			return &CleanUp{Until: now.Add(l.settings.FirstTTL)}
		}
		return nil
	}
	return l.cleanUpAfterLoss(applied, now)
}

// extend extends the trust.
func (l *Lease) extend(sent, now trust.Instant, grant abstractions.Grant, random float64, fx *Effects) {
	trusted := grant.TTL
	if l.ttlChange != nil {
		trusted = l.ttlChange.noteSuccess(grant.TTL)
	}
	l.until = sent.Add(l.rules.Window(trusted))
	l.granted, l.state, l.sent = grant.TTL, grant.State, sent
	l.renewals++
	if l.metadataChange != nil {
		l.metadataChange.noteSuccess(sent)
	}
	l.resetFailures(fx)
	l.planRenewal(random)
	l.settle(fx)
	fx.Reschedule = true
	fx.Event = Event{Kind: abstractions.EventRenewed, Remaining: l.until.Left(now)}
}

// noteFailure plans the retry, unless the trust has run out.
func (l *Lease) noteFailure(now trust.Instant, a *Answer, random float64) (fx Effects) {
	left := l.until.Left(now)
	failing := int8(0)
	if l.failures++; l.failures == 1 {
		failing = 1
	}
	err := withLastAnswer(l.failure, a.Err)
	l.failure = err
	if l.metadataChange != nil {
		l.metadataChange.noteFailure(l.lastSent.Add(l.settings.FirstTTL), err, a)
	}
	l.ambiguous, l.renewalUnanswered = l.ambiguous || a.Applied, l.renewalUnanswered || a.Applied
	if l.ttlChange != nil && a.Applied {
		l.ttlChange.noteUnanswered()
	}
	l.planRetry(now, left, a.Throttled, random)
	event := Event{
		Kind: abstractions.EventRenewalFailed, Remaining: max(left, 0), Attempt: int(l.failures), Err: err,
		WillRetry: l.settings.Cadence != trust.Forever && l.nextRenew().Left(now) < left,
	}
	if left <= 0 {
		fx = l.Lose(&abstractions.LostError{Reason: abstractions.LostExpired, Err: cmp.Or(lastAnswer(err), err)})
	} else {
		l.settle(&fx)
		fx.Reschedule = true
	}
	fx.Event = event
	fx.Failing += failing
	return fx
}

// resetFailures clears the failures since the latest success.
func (l *Lease) resetFailures(fx *Effects) {
	if l.failures > 0 {
		fx.Failing--
	}
	l.failures, l.failure, l.ambiguous = 0, nil, false
}

// settle wakes the waiters for the renewal under way, which then read its result.
func (l *Lease) settle(fx *Effects) {
	l.renewing = false
	fx.Settled = true
}

// Settle notes that the renewal under way will not be answered, since it was never sent.
func (l *Lease) Settle() (fx Effects) {
	l.settle(&fx)
	return fx
}

// RenewNow notes that a renewal is wanted at once, unless the lease is renewed by hand.
func (l *Lease) RenewNow(now trust.Instant) (fx Effects) {
	if !l.Over() && l.settings.Cadence != trust.Forever {
		l.renewIn = min(l.renewIn, now.Mono-l.lastSent.Mono)
		fx.Reschedule = true
	}
	return fx
}
