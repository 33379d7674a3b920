package lifecycle

import (
	"cmp"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
)

// Phase is the stage of a lease's life. It only moves forward.
type Phase uint8

// The phases.
const (
	Claiming  Phase = iota // asked for, and not granted yet
	Working                // held
	Ending                 // its context is cancelled; its work and its renewals may still go on
	Releasing              // the release is under way
	Ended                  // released, lost or handed over: see Outcome
	Abandoned              // given up while the outcome of a request was unknown
)

// Rules are the settings that the leases of a manager share. They do not change.
type Rules struct {
	DriftFactor    float64 // see trust.Window
	DriftFloor     time.Duration
	RequestTimeout time.Duration // bounds each request
	MinTTL         time.Duration // of the backend, as is Granularity
	Granularity    time.Duration
	Batches        bool // renewals may share a request
}

// Window returns the time for which a grant of ttl is trusted: see trust.Window.
func (r *Rules) Window(ttl time.Duration) time.Duration {
	return trust.Window(ttl, r.DriftFactor, r.DriftFloor)
}

// Trusts reports whether a grant of ttl is still trusted when its answer arrives, which may be too late.
func (r *Rules) Trusts(now, sent trust.Instant, ttl time.Duration) bool {
	return sent.Add(r.Window(ttl)).Left(now) > 0
}

// RoundUp rounds a TTL up to the unit in which the backend counts, unless unit is 0.
func RoundUp(ttl, unit time.Duration) time.Duration {
	if unit > 0 && ttl%unit != 0 && ttl > 0 {
		ttl += unit - ttl%unit
	}
	return ttl
}

// Settings are the settings of one lease.
type Settings struct {
	TTL         time.Duration // of renewals
	FirstTTL    time.Duration // of the acquire: finite even for an infinite lease, and at least AtLeast
	AtLeast     time.Duration // 0: the release frees the name
	Cadence     time.Duration // from sending one renewal to sending the next; trust.Forever without auto-renewal
	MaxRenewals int           // 0: no limit
}

// Lease is the life of one lease. Its methods are the inputs; each returns the effects that the engine takes
// afterwards. A Lease is not safe for concurrent use.
type Lease struct {
	// The fields that renewals read come first, to share cache lines: 100,000 leases do not fit into any cache.

	phase             Phase
	renewing          bool  // an attempt is under way, or about to be
	renewalUnanswered bool  // at least one renewal got no answer
	ambiguous         bool  // a request since the latest success may have been applied, or may yet be
	failures          int32 // failed renewals in a row
	renewals          int32
	rules             *Rules
	settings          *Settings
	until             trust.Instant // when the trust in the latest grant ends
	lastSent          trust.Instant // when the latest renewal was sent, or the latest acquire whose outcome is unknown
	renewIn           time.Duration // from lastSent to the next renewal; trust.Forever for none

	state          any           // of the latest grant, as are the next two
	sent           trust.Instant // when its request was sent
	granted        time.Duration
	failure        error           // of the latest renewal
	metadataChange *metadataChange // nil if WantMetadata was never called
	ttlChange      *ttlChange      // nil if WantTTL was never called

	// Fields for the rest of the lease's life.

	cause        error         // the cause with which its context ends
	outcome      error         // the result of the release, or the loss, once the lease has ended
	mayLand      trust.Instant // until when an earlier request of the acquire may land
	atLeastUntil trust.Instant // until when the name stays taken (Settings.AtLeast); zero for no such time
}

// New returns a lease in the phase Claiming.
func New(rules *Rules, settings *Settings) Lease { return Lease{rules: rules, settings: settings} }

// Effects are the steps that follow an input. The zero value has no step.
type Effects struct {
	Reschedule bool  // the lease is due at another time: see Next
	Over       bool  // the lease is not due any more
	Settled    bool  // the waiters for the renewal under way see its result
	Failing    int8  // the change to the number of leases whose latest renewal failed
	Cause      error // ends the lease's context
	// Event will be published, unless its Kind is empty. Lost is the loss of the lease, which is published after Event; nil if
	// the lease is not lost.
	Event Event
	Lost  *abstractions.LostError
	// CleanUp is needed for a claim that may outlive the lease; nil if there is no such claim.
	CleanUp *CleanUp
}

// Event has the fields of an abstractions.Event that belong to its kind.
type Event struct {
	Kind      abstractions.EventKind
	Remaining time.Duration
	Attempt   int
	WillRetry bool
	Err       error
}

// Phase returns the stage of the lease.
func (l *Lease) Phase() Phase { return l.phase }

// Over reports whether the phase is Releasing or later.
func (l *Lease) Over() bool { return l.phase >= Releasing }

// Failures counts the renewals that failed since the last success.
func (l *Lease) Failures() int { return int(l.failures) }

// Failure returns the error of the latest renewal; nil if it succeeded.
func (l *Lease) Failure() error { return l.failure }

// Renewals counts the renewals that succeeded.
func (l *Lease) Renewals() int { return int(l.renewals) }

// TTL returns the TTL of the latest grant.
func (l *Lease) TTL() time.Duration { return l.granted }

// State returns the State of the latest grant.
func (l *Lease) State() any { return l.state }

// LastSent returns when the request of the latest grant was sent.
func (l *Lease) LastSent() trust.Instant { return l.sent }

// Remaining returns the time for which the latest grant is trusted, which may be negative.
func (l *Lease) Remaining(now trust.Instant) time.Duration { return l.until.Left(now) }

// Cause returns why the lease's context has ended; nil while the work may go on.
func (l *Lease) Cause() error { return l.cause }

// Outcome returns the result of the release, or the *abstractions.LostError, once the lease has ended.
func (l *Lease) Outcome() error { return l.outcome }

// Err returns the loss of a lost lease, and otherwise the cause with which the lease's context has ended.
func (l *Lease) Err() error {
	if lost, ok := l.outcome.(*abstractions.LostError); ok { //nolint:errorlint // as Lose has set it
		return lost
	}
	return l.cause
}

// Next returns when the lease is due, and how much earlier its renewal may be sent together with others.
func (l *Lease) Next(now trust.Instant) (due, early time.Duration) {
	due = l.until.Left(now)
	if renew := l.nextRenew().Left(now); !l.renewing && renew < due {
		due, early = renew, l.slack()
	}
	return due, early
}

// slack returns how early a renewal may be sent to share a request with renewals that are due.
func (l *Lease) slack() time.Duration {
	if !l.rules.Batches || l.settings.Cadence == trust.Forever || l.failures > 0 {
		return 0
	}
	return l.settings.Cadence / 32
}

// Unanswered notes that a request of the acquire, sent at the given instant, has an unknown outcome.
func (l *Lease) Unanswered(sent trust.Instant) { l.ambiguous, l.lastSent = true, sent }

// Ambiguous reports whether a request may have been applied since the latest success, or may yet be.
func (l *Lease) Ambiguous() bool { return l.ambiguous }

// Granted notes that the backend has granted the claim by a request sent at the given instant. It reports whether the
// grant is trusted at all. The lease begins with Begin.
func (l *Lease) Granted(now, sent trust.Instant, ttl time.Duration, adopted bool) (trusted bool) {
	switch {
	case adopted:
		l.mayLand = sent.Add(l.settings.FirstTTL)
	case l.ambiguous:
		l.mayLand = l.lastSent.Add(l.settings.FirstTTL)
	}
	// An acquired claim is cleaned up unless Begin follows.
	l.ambiguous, l.lastSent = !adopted, sent
	return l.rules.Trusts(now, sent, ttl)
}

// Begin starts the lease of a granted claim.
func (l *Lease) Begin(now, sent trust.Instant, grant abstractions.Grant, random float64) (fx Effects) {
	l.phase, l.ambiguous = Working, false
	if l.settings.AtLeast > 0 {
		l.atLeastUntil = sent.Add(l.settings.AtLeast)
	}
	l.granted, l.state, l.sent, l.until = grant.TTL, grant.State, sent, sent.Add(l.rules.Window(grant.TTL))
	l.planRenewal(random)
	if l.settings.TTL == abstractions.Infinite && grant.TTL != abstractions.Infinite {
		l.renewIn = 0 // the first renewal makes the lease infinite
	}
	fx.Reschedule = true
	fx.Event = Event{Kind: abstractions.EventAcquired, Remaining: l.until.Left(now)}
	return fx
}

// Abandon gives the claim up while the outcome of a request is unknown.
func (l *Lease) Abandon() CleanUp {
	l.phase = Abandoned
	return CleanUp{Until: l.lastSent.Add(l.settings.FirstTTL)}
}

// Due notes that the lease is due. It ends a lease whose trust has run out, and reports whether a renewal is due. Such a
// renewal counts as under way from then on.
func (l *Lease) Due(now trust.Instant) (renew bool, fx Effects) {
	fx = l.Expire(now)
	if l.Over() {
		return false, fx
	}
	if !l.renewing && l.nextRenew().Left(now) <= l.slack() {
		l.renewing, renew = true, true
	}
	fx.Reschedule = true
	return renew, fx
}

// Expire ends a lease whose trust has run out.
func (l *Lease) Expire(now trust.Instant) Effects {
	if l.Over() || l.until.Left(now) > 0 {
		return Effects{}
	}
	lost := &abstractions.LostError{Reason: abstractions.LostExpired, Err: cmp.Or(lastAnswer(l.failure), l.failure)}
	if l.failures == 0 && l.usedUp() {
		lost.Reason = abstractions.LostRenewalLimit
	}
	return l.Lose(lost)
}

// Lose ends the lease without a release, unless it is over.
func (l *Lease) Lose(lost *abstractions.LostError) (fx Effects) {
	if l.Over() {
		return fx
	}
	if l.ambiguous && lost.Reason == abstractions.LostExpired {
		fx.CleanUp = l.cleanUpAfter(l.lastSent)
	}
	fx.Cause = l.endWork(lost)
	l.finish(lost, &fx)
	fx.Lost = lost
	return fx
}

// cleanUpAfter returns the clean-up after a renewal, sent at the given instant, that the
// backend may have granted to a lost lease.
func (l *Lease) cleanUpAfter(sent trust.Instant) *CleanUp {
	c := &CleanUp{Until: sent.Add(max(l.renewTTL(sent), l.ttlChange.longestTTL()))}
	if l.granted != abstractions.Infinite {
		c.From = l.sent.Add(l.granted)
	}
	return c
}

// EndWork ends the lease's context, unless it has ended already. The renewals continue until the release.
func (l *Lease) EndWork(cause error) Effects { return Effects{Cause: l.endWork(cause)} }

func (l *Lease) endWork(cause error) (ended error) {
	if l.cause == nil {
		l.cause, ended = cause, cause
	}
	l.phase = max(l.phase, Ending)
	return ended
}

// finish enters the last phase.
func (l *Lease) finish(outcome error, fx *Effects) {
	l.phase, l.outcome = Ended, outcome
	fx.Over = true
	l.resetFailures(fx)
}

// usedUp reports whether the lease has had all its MaxRenewals renewals.
func (l *Lease) usedUp() bool {
	return l.settings.MaxRenewals > 0 && int(l.renewals) >= l.settings.MaxRenewals
}

// CanHandOver reports whether no renewal is under way, and either a renewal that was sent after began has succeeded or the
// renewals are used up.
func (l *Lease) CanHandOver(began trust.Instant) bool {
	renewed := l.sent.Mono >= began.Mono && (l.granted == abstractions.Infinite) == (l.settings.TTL == abstractions.Infinite)
	return !l.renewing && (l.usedUp() || renewed)
}

// HandOver ends the lease without a release, for a process that adopts the claim.
func (l *Lease) HandOver() (fx Effects) {
	fx.Cause = l.endWork(abstractions.ErrHandedOver)
	l.finish(nil, &fx)
	fx.Event.Kind = abstractions.EventHandedOver
	return fx
}
