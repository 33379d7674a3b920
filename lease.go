package leasing

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/sealed"
	"go.opentelemetry.io/otel/trace"
)

// phase is where a lease is in its life. It only moves forward.
//
//	working ──► ending ──► releasing ──► ended
//	   │           │                       ▲
//	   └───────────┴─────── lost ──────────┘
type phase uint8

const (
	working   phase = iota
	ending          // its context is cancelled, its work may still go on, renewals do
	releasing       // the backend is being told
	ended           // released, lost or handed over: see outcome
)

// lease is the one implementation of Lease.
type lease struct {
	sealed.Lease
	m        *manager
	name, id string
	token    int64
	plan     plan
	acquired instant
	scope    *scope
	caller   *trace.SpanContext // who acquired it; nil if not traced
	observer *subscription      // nil without AcquireOptions.Observer
	adopted  bool
	ctx      context.Context
	cancel   context.CancelCauseFunc

	entry                  // in the schedule
	overdue   overdue      // requests about it alone
	inBatches atomic.Int64 // batches with it that are overdue
	slot      int          // in manager.leases, under manager.mu

	mu      sync.Mutex
	phase   phase
	cause   error         // of ctx, once it has ended
	outcome error         // of the lease, once it has ended: what Release returns
	done    chan struct{} // made by those who wait for the release under way, closed at its end

	// The latest grant, and how far it can be trusted.
	granted time.Duration
	state   any
	sent    instant // when its request was
	until   instant

	// Renewal.
	nextRenew instant
	lastSent  instant       // when the latest attempt was, whatever came of it
	renewing  bool          // an attempt is under way, or about to be
	settled   chan struct{} // made by those who wait for it, closed at its end
	renewals  int
	failures  int // in a row
	failure   error
	unknown   bool    // one of the failures may have been applied, or may yet be
	doubt     instant // until when an earlier request of the acquire may land
	change    *metadataChange
}

// The methods that change a lease's state do so under its lock and call
// nothing there but this package and the standard library: not the application's
// code (contexts, instruments, Random), not the provider's, and not the methods
// of its errors. What is to follow a change they return, for the caller to do
// when the lock is free.

// newLease makes a lease of a grant whose request was sent at the given instant.
func (m *manager) newLease(c *claim, grant abstractions.Grant, sent instant) *lease {
	l := &lease{
		m: m, name: c.name, id: c.id, token: grant.Token, adopted: c.adopt != 0,
		plan: c.plan, acquired: sent, scope: c.scope, caller: c.caller,
		granted: grant.TTL, state: grant.State,
		sent: sent, until: sent.add(m.drift.window(grant.TTL)),
	}
	l.Lease = sealed.NewLease(l)
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(c.values))
	if c.plan.observer != nil {
		l.observer = m.observers.forLease(c.plan.observer)
	}
	l.planRenewal(sent, m.random())
	if c.plan.ttl == Infinite && grant.TTL != Infinite {
		l.nextRenew = sent // an infinite lease is made by its first renewal
	}
	return l
}

// begin puts a new lease to work, unless the manager is being closed or has it already.
func (l *lease) begin(now instant) error {
	l.m.telemetry.active(l.scope, +1)
	err := l.start(now)
	if err != nil {
		l.m.telemetry.active(l.scope, -1)
	}
	return err
}

func (l *lease) start(now instant) error {
	l.mu.Lock() // before anybody else can find it, so that Acquired is the first event
	defer l.mu.Unlock()
	if err := l.m.register(l); err != nil {
		return err
	}
	e := l.event(EventAcquired, now.mono)
	e.Remaining = l.until.left(now)
	l.m.observers.publish(l.observer, e)
	l.reschedule(now)
	return nil
}

func (l *lease) Name() string             { return l.name }
func (l *lease) ID() string               { return l.id }
func (l *lease) Owner() string            { return l.m.options.Owner }
func (l *lease) Token() int64             { return l.token }
func (l *lease) Context() context.Context { return l.ctx }
func (l *lease) Done() <-chan struct{}    { return l.ctx.Done() }
func (l *lease) AcquiredAt() time.Time    { return l.m.clock.time(l.acquired.mono) }

func (l *lease) TTL() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.granted
}

func (l *lease) Metadata() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.plan.metadata)
}

func (l *lease) Renewals() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewals
}

func (l *lease) Remaining() time.Duration {
	now := l.m.clock.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase >= releasing {
		return 0
	}
	return max(0, l.until.left(now))
}

func (l *lease) Err() error {
	now := l.m.clock.now()
	l.mu.Lock()
	lost := l.expire(now)
	cause := l.cause
	l.mu.Unlock()
	lost.report()
	return cause
}

// onDue is the loop's call: trust has run out, or a renewal is due.
func (l *lease) onDue(now instant) {
	l.mu.Lock()
	lost := l.expire(now)
	if l.phase < releasing {
		if !l.renewing && l.nextRenew.left(now) <= l.slack() {
			l.renewing = true
			l.m.engine.gather(l, l.until.left(now))
		}
		l.reschedule(now)
	}
	l.mu.Unlock()
	lost.report()
}

// reschedule says when the loop must look at the lease again. Caller holds mu.
func (l *lease) reschedule(now instant) {
	due, early := l.until.left(now), time.Duration(0)
	if renew := l.nextRenew.left(now); !l.renewing && renew < due {
		due, early = renew, l.slack()
	}
	l.m.schedule.set(l, addSaturated(now.mono, due), early)
	if l.m.suspended.Load() > int64(now.boot-now.mono+suspendResolution) {
		l.m.schedule.makeDueNow(l) // a suspend since now was read, which the loop saw before the lease was in the schedule
	}
}

// slack is how much too early a renewal may be sent along with others that
// are due, where they can share a request.
func (l *lease) slack() time.Duration {
	if l.m.batch == nil || l.plan.cadence == forever || l.failures > 0 {
		return 0
	}
	return l.plan.cadence / 32
}

// loss is what is still to do about a lease that has just been lost. A nil one
// is nothing.
type loss struct {
	lease  *lease
	reason LostReason
	held   time.Duration
	orphan *cleanup // of a renewal that nobody has heard of, which may hold the name for another TTL
}

// expire ends a lease whose trust has run out. Caller holds mu, and reports the loss.
func (l *lease) expire(now instant) *loss {
	if l.phase >= releasing || l.until.left(now) > 0 {
		return nil
	}
	return l.lose(now, LostExpired, l.failure)
}

// lose ends the lease without a release. Caller holds mu, and reports the loss.
func (l *lease) lose(now instant, reason LostReason, err error) *loss {
	if reason == LostExpired && l.failures == 0 && l.plan.maxRenewals > 0 && l.renewals >= l.plan.maxRenewals {
		reason = LostRenewalLimit
	}
	return l.loseAs(now, &LostError{Reason: reason, Err: err})
}

// loseAs is lose for a loss of which the backend told. Caller holds mu, and
// reports the loss.
func (l *lease) loseAs(now instant, lost *LostError) *loss {
	ended := &loss{lease: l, reason: lost.Reason, held: now.mono - l.acquired.mono}
	if l.unknown && lost.Reason == LostExpired {
		ended.orphan = l.orphan(l.lastSent)
	}
	l.endWork(lost)
	l.finish(lost)
	e := l.event(EventLost, now.mono)
	e.Reason, e.BrokenBy, e.BreakReason = lost.Reason, lost.BrokenBy, lost.BreakReason
	e.Err, e.LastRenewal = lost, l.m.clock.time(l.sent.mono)
	l.m.observers.publish(l.observer, e)
	return ended
}

// report does what follows a loss. Nothing in it waits.
func (x *loss) report() {
	if x == nil {
		return
	}
	m := x.lease.m
	defer func() { // a renewal may be queued still, and never be sent
		x.lease.mu.Lock()
		defer x.lease.mu.Unlock()
		x.lease.settleRenewal()
	}()
	m.lost.Add(1)
	m.outage.lost(m.clock.mono(), x.reason)
	if x.orphan != nil {
		m.cleanUp(x.orphan, nil)
	}
	m.retire(x.lease)
	m.telemetry.lost(x.lease.scope, x.reason, x.held)
}

// orphan is the clean-up after a renewal, sent at the given instant, that the
// backend may have granted to a lease which is lost. Caller holds mu.
func (l *lease) orphan(sent instant) *cleanup {
	c := &cleanup{name: l.name, id: l.id, token: l.token, state: l.state, until: sent.add(l.plan.ttl)}
	if l.granted != Infinite {
		c.from = l.sent.add(l.granted)
	}
	return c
}

// endWork cancels the lease's context. Caller holds mu: cancelling calls nothing
// of ours, and what a user has hung on the context runs in goroutines.
func (l *lease) endWork(cause error) {
	if l.cause == nil {
		l.cause = cause
		l.cancel(cause)
	}
	l.phase = max(l.phase, ending)
}

// finish enters the last phase. Caller holds mu.
func (l *lease) finish(outcome error) {
	l.phase, l.outcome = ended, outcome
	l.m.schedule.remove(l)
	l.recovered()
}

// retire takes an ended lease out of the manager's books.
func (m *manager) retire(l *lease) {
	m.queues.ended(l)
	m.unregister(l)
	m.telemetry.active(l.scope, -1)
}

// endedError is what a renewal of an ended lease returns.
func (l *lease) endedError() error { return l.endedFor("renew") }

// endedFor is what an operation on an ended lease returns.
func (l *lease) endedFor(op string) error {
	l.mu.Lock()
	outcome := l.outcome
	l.mu.Unlock()
	if lost, ok := outcome.(*LostError); ok { //nolint:errorlint // as lose has set it
		return l.m.wrap(op, l.name, lost)
	}
	return l.m.wrap(op, l.name, ErrReleased)
}

// event is an Event about the lease. Caller holds mu.
func (l *lease) event(kind EventKind, now time.Duration) Event {
	return Event{
		Kind: kind, Time: l.m.clock.time(now), Coalesced: 1,
		Name: l.name, ID: l.id, Owner: l.m.options.Owner, Token: l.token, TTL: l.granted, Renewals: l.renewals,
	}
}
