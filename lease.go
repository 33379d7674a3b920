package leasing

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/distributedleasing/leasing/internal/trust"
)

// phase is the stage of a lease's life. It only moves forward.
//
//	claiming ──► working ──► ending ──► releasing ──► ended
//	    │           │           │                       ▲
//	    ▼           └───────────┴─────── lost ──────────┘
//	abandoned
type phase uint8

const (
	claiming  phase = iota // asked for, and not granted yet
	working                // held
	ending                 // its context is cancelled, its work may still go on, renewals do
	releasing              // the release is under way
	ended                  // released, lost or handed over: see outcome
	abandoned              // given up with the outcome of a request unknown
)

// lease is one claim, from the start of its acquire. All its requests carry one ID, so that
// the backend takes each of them for the same claim. It is the library's
// implementation of abstractions.Lease.
type lease struct {
	// The fields that renewals read come first, to share cache lines: 100,000 leases fit in no cache.

	mu       sync.Mutex // while the lease is claiming, one goroutine has it
	phase    phase
	adopted  bool
	renewing bool  // an attempt is under way, or about to be
	unsure   bool  // any renewal got no answer, ever
	unknown  bool  // a request since the latest success may have been applied, or may yet be
	entry          // in the schedule
	failures int32 // of renewals in a row
	renewals int32
	m        *manager
	settings *settings
	until    trust.Instant // the latest grant is trusted
	lastSent trust.Instant // when the latest renewal was, or the latest acquire whose outcome is unknown
	renewIn  time.Duration // from lastSent to the next renewal; forever for none

	name, id string
	token    int64 // 0 until it is granted, unless it is adopted
	state    any   // of the latest grant, as are the next two
	sent     trust.Instant
	granted  time.Duration
	failure  error // of the latest renewal
	scope    *scope
	traced   *traced         // nil if the acquire was not traced
	observer *subscription   // nil without AcquireOptions.Observer
	settled  chan struct{}   // made by the first waiter for the renewal under way, closed at its end
	change   *metadataChange // nil if SetMetadata was never called
	terms    *terms          // nil if SetTTL was never called

	// The rest of the lease's life.

	acquiredAt time.Duration           // monotonic
	ctx        context.Context         // the caller's, whose values the lease keeps; the lease's own after the first call of Context
	cancel     context.CancelCauseFunc // of the lease's own context; nil before the first call of Context
	cause      error                   // why its context has ended, or would have
	outcome    error                   // the result of Release, once the lease has ended
	done       chan struct{}           // made by the first waiter for the release under way, closed at its end
	doubt      trust.Instant           // until when an earlier request of the acquire may land
	keep       trust.Instant           // until when the name stays taken (AcquireOptions.AtLeast); zero for no such time

	fresh  *Lease              // until the first renewal
	holder weak.Pointer[Lease] // from the first renewal until the handle was collected

	acquires  overdue // requests until it was granted
	overdue   overdue // renewals of it alone
	releases  overdue
	inBatches atomic.Int32 // batches with it that are overdue
	slot      int32        // in manager.leases, under manager.mu
	before    *lease       // an older one of the name, under manager.mu; or nil
}

// The methods that change a lease's state do so under its lock and call
// only this package and the standard library there: not the application's
// code (contexts, instruments, Random), not the provider's, and not the methods
// of its errors. They return the steps that follow a change, which the caller takes
// when the lock is free.

func (l *lease) Name() string          { return l.name }
func (l *lease) ID() string            { return l.id }
func (l *lease) Owner() string         { return l.m.options.Owner }
func (l *lease) Token() int64          { return l.token }
func (l *lease) AcquiredAt() time.Time { return l.m.clock.Time(l.acquiredAt) }

// Context makes the lease's context in its first call: the context takes a fifth of the
// memory of a lease.
func (l *lease) Context() context.Context {
	l.mu.Lock()
	ctx, made := l.ctx, l.cancel != nil
	l.mu.Unlock()
	if made {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx) // asks the caller's context: not under the lock
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil { // another goroutine was faster
		cancel(nil)
		return l.ctx
	}
	if l.ctx, l.cancel = ctx, cancel; l.cause != nil {
		cancel(l.cause)
	}
	return ctx
}

func (l *lease) TTL() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.granted
}

func (l *lease) Metadata() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.confirmedMetadata())
}

func (l *lease) Renewals() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.renewals)
}

func (l *lease) Remaining() time.Duration {
	now := l.m.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase >= releasing {
		return 0
	}
	return max(0, l.until.Left(now))
}

func (l *lease) Err() error {
	now := l.m.clock.Now()
	l.mu.Lock()
	lost := l.expire(now)
	cause := l.cause
	l.mu.Unlock()
	if lost != nil {
		lost.report()
	}
	return cause
}

// onDue ends a lease whose trust has run out, or gathers a renewal that is due. The loop calls onDue.
func (l *lease) onDue(now trust.Instant) {
	l.mu.Lock()
	lost := l.expire(now)
	if l.phase < releasing {
		if !l.renewing && l.nextRenew().Left(now) <= l.slack() {
			l.renewing = true
			l.m.engine.gather(l, l.until.Left(now))
		}
		l.reschedule(now)
	}
	l.mu.Unlock()
	if lost != nil {
		lost.report()
	}
}

// reschedule sets the time of the loop's next look at the lease. Caller holds mu.
func (l *lease) reschedule(now trust.Instant) {
	due, early := l.until.Left(now), time.Duration(0)
	if renew := l.nextRenew().Left(now); !l.renewing && renew < due {
		due, early = renew, l.slack()
	}
	l.m.schedule.set(l, trust.AddSaturated(now.Mono, due), early)
	if l.m.suspended.Load() > int64(now.Boot-now.Mono+suspendResolution) {
		l.m.schedule.makeDueNow(l) // a suspend since now was read, which the loop saw before the lease was in the schedule
	}
}

// slack returns the time by which a renewal may be sent early along with others that
// are due, where they can share a request.
func (l *lease) slack() time.Duration {
	if l.m.batch == nil || l.settings.cadence == trust.Forever || l.failures > 0 {
		return 0
	}
	return l.settings.cadence / 32
}

// loss has the steps that are left to take for a lease that has just been lost.
type loss struct {
	lease  *lease
	err    *LostError
	orphan *cleanup // of a renewal whose outcome is unknown, which may hold the name for another TTL; or nil
}

// expire ends a lease whose trust has run out, and returns nil for others. Caller holds mu,
// and reports the loss.
func (l *lease) expire(now trust.Instant) *loss {
	if l.phase >= releasing || l.until.Left(now) > 0 {
		return nil
	}
	lost := &LostError{Reason: LostExpired, Err: cmp.Or(answerOf(l.failure), l.failure)}
	if l.failures == 0 && l.usedUp() {
		lost.Reason = LostRenewalLimit
	}
	return l.lose(now, lost)
}

// lose ends the lease without a release. Caller holds mu, and reports the loss.
func (l *lease) lose(now trust.Instant, lost *LostError) *loss {
	ended := &loss{lease: l, err: lost}
	if l.unknown && lost.Reason == LostExpired {
		ended.orphan = l.orphan(l.lastSent)
	}
	l.endWork(lost)
	l.finish(lost)
	e := l.event(EventLost, now.Mono)
	e.Reason, e.BrokenBy, e.BreakReason = lost.Reason, lost.BrokenBy, lost.BreakReason
	e.Err, e.LastRenewal = lost, l.m.clock.Time(l.sent.Mono)
	l.m.observers.publish(l.observer, l.id, &e)
	return ended
}

// report takes the steps that follow a loss. It does not wait.
func (x *loss) report() {
	l, m := x.lease, x.lease.m
	defer func() { // a renewal may be queued still, and never be sent
		l.mu.Lock()
		defer l.mu.Unlock()
		l.settleRenewal()
	}()
	m.outage.lost(m.clock, x.err.Reason)
	m.cleanUp(x.orphan, nil)
	m.retire(l)
	add(m.telemetry.lostCount, 1, l.scope.and(reasonKey, string(x.err.Reason)))
	if l.traced != nil {
		m.goTracked(func() { m.telemetry.lost(l, x.err) }) // the end of a span may export it, and the loop must not wait
	}
}

// orphan returns the clean-up after a renewal, sent at the given instant, that the
// backend may have granted to a lost lease. Caller holds mu.
func (l *lease) orphan(sent trust.Instant) *cleanup {
	c := &cleanup{req: l.releaseRequest(), until: sent.Add(max(l.renewTTL(sent), l.terms.most()))}
	if l.granted != Infinite {
		c.from = l.sent.Add(l.granted)
	}
	return c
}

// endWork cancels the lease's context, unless it has ended already. Caller holds mu:
// cancelling calls none of our code, and functions that a user has registered with the context
// run in goroutines.
func (l *lease) endWork(cause error) {
	if l.cause == nil {
		l.cause = cause
		if l.cancel != nil {
			l.cancel(cause)
		}
	}
	l.phase = max(l.phase, ending)
}

// finish enters the last phase. Caller holds mu.
func (l *lease) finish(outcome error) {
	l.phase, l.outcome = ended, outcome
	l.m.schedule.remove(l)
	l.recovered()
}

// retire removes an ended lease from the manager.
func (m *manager) retire(l *lease) {
	m.queues.ended(l)
	m.unregister(l)
	add(m.telemetry.activeCount, -1, &l.scope.base)
	record(m.telemetry.heldDuration, m.clock.Mono()-l.acquiredAt, &l.scope.base)
}

// usedUp reports whether the lease has had all its MaxRenewals renewals. Caller holds mu.
func (l *lease) usedUp() bool {
	return l.settings.maxRenewals > 0 && int(l.renewals) >= l.settings.maxRenewals
}

// endedError returns the error of an operation on an ended lease.
func (l *lease) endedError(op string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.m.wrap(op, l.name, l.id, l.ended())
}

// ended returns the cause of the lease's end. Caller holds mu.
func (l *lease) ended() error {
	if lost, ok := l.outcome.(*LostError); ok { //nolint:errorlint // as lose has set it
		return lost
	}
	return l.cause
}

// event returns an Event about the lease. publish adds the fingerprint. Caller holds mu.
func (l *lease) event(kind EventKind, now time.Duration) Event {
	return Event{
		Kind: kind, Time: l.m.clock.Time(now), Coalesced: 1,
		Name: l.name, Owner: l.m.options.Owner, Token: l.token, TTL: l.granted, Renewals: int(l.renewals),
	}
}
