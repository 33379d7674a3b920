package engine

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/dispatch"
	"github.com/distributedleasing/leasing/internal/instrument"
	"github.com/distributedleasing/leasing/internal/lifecycle"
	"github.com/distributedleasing/leasing/internal/notify"
	"github.com/distributedleasing/leasing/internal/timetable"
	"github.com/distributedleasing/leasing/internal/trust"
)

// lease is one claim, from the start of its acquire. All its requests carry one ID, so
// the backend treats them as the same claim. It is the library's
// implementation of abstractions.Lease.
//
// life makes the decisions. The lease serializes the inputs to life with mu, and takes the steps that follow.
type lease struct {
	// The fields that renewals read come first, to share cache lines: 100,000 leases do not fit into any cache.

	mu      sync.Mutex // not needed in the phase Claiming, when only one goroutine has the lease
	adopted bool
	timetable.Entry
	m        *Manager
	settings *Settings
	life     lifecycle.Lease

	name, id string
	token    int64 // 0 until the claim is granted, unless it is adopted
	scope    *instrument.Scope
	trace    *instrument.Trace    // nil if the acquire was not traced
	observer *notify.Subscription // nil without AcquireOptions.Observer
	settled  chan struct{}        // made by the first waiter for the renewal under way, closed at its end

	// Fields for the rest of the lease's life.

	acquiredAt time.Duration           // monotonic
	ctx        context.Context         // the caller's, whose values the lease keeps; the lease's own after the first call to Context
	cancel     context.CancelCauseFunc // of the lease's own context; nil before the first call to Context
	done       chan struct{}           // made by the first waiter for the release under way, closed at its end

	handle     *handle              // until the first renewal
	weakHandle weak.Pointer[handle] // from the first renewal until the handle was collected

	overdueAcquires dispatch.Overdue // requests before the grant
	overdueRenewals dispatch.Overdue // renewals outside batches
	overdueReleases dispatch.Overdue
	inBatches       atomic.Int32 // overdue batches that include the lease
	slot            int32        // in manager.leases, under manager.mu
	older           *lease       // the next older lease of the name, or nil; under manager.mu
}

// Inputs to life and calls to apply are made under the lock. So they call only this package,
// lifecycle and the standard library: not the application's code (contexts, instruments, Random),
// not the provider's, and not the methods of its errors. apply returns the steps that are left. The
// caller takes them after it has released the lock.

func (l *lease) Name() string          { return l.name }
func (l *lease) ID() string            { return l.id }
func (l *lease) Owner() string         { return l.m.config.Owner }
func (l *lease) Token() int64          { return l.token }
func (l *lease) AcquiredAt() time.Time { return l.m.clock.Time(l.acquiredAt) }

// Context makes the lease's context only in its first call, since the context takes a
// fifth of the memory of a lease.
func (l *lease) Context() context.Context {
	l.mu.Lock()
	ctx, made := l.ctx, l.cancel != nil
	l.mu.Unlock()
	if made {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx) // calls the caller's context, so not under the lock
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil { // another goroutine was faster
		cancel(nil)
		return l.ctx
	}
	l.ctx, l.cancel = ctx, cancel
	if cause := l.life.Cause(); cause != nil {
		cancel(cause)
	}
	return ctx
}

func (l *lease) TTL() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.life.TTL()
}

func (l *lease) Metadata() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if confirmed, changed := l.life.Metadata(); changed {
		return maps.Clone(confirmed)
	}
	return maps.Clone(l.settings.Metadata)
}

func (l *lease) Renewals() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.life.Renewals()
}

func (l *lease) Remaining() time.Duration {
	now := l.m.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Over() {
		return 0
	}
	return max(0, l.life.Remaining(now))
}

func (l *lease) Err() error {
	now := l.m.clock.Now()
	l.mu.Lock()
	next := l.apply(now, l.life.Expire(now))
	cause := l.life.Cause()
	l.mu.Unlock()
	next.run()
	return cause
}

// OnDue ends a lease whose trust has run out, or gathers a renewal that is due. The loop of the timetable calls OnDue.
func (l *lease) OnDue(now trust.Instant) {
	l.mu.Lock()
	renew, fx := l.life.Due(now)
	if renew {
		l.m.renewals.Gather(l, lifecycle.AttemptBound(l.life.Remaining(now), l.m.config.RequestTimeout), l.life.Failures())
	}
	next := l.apply(now, fx)
	l.mu.Unlock()
	next.run()
}

// apply carries out those effects of an input to life that are safe under mu, and returns the steps that are left. Caller
// holds mu.
func (l *lease) apply(now trust.Instant, fx lifecycle.Effects) *followUp {
	if fx.Failing != 0 {
		l.m.failing.Add(int64(fx.Failing))
	}
	if fx.Cause != nil && l.cancel != nil { // calls none of this module's code; functions that a user has registered run in goroutines
		l.cancel(fx.Cause)
	}
	switch {
	case fx.Over:
		l.m.timetable.Remove(l)
	case fx.Reschedule:
		l.reschedule(now)
	}
	if fx.Settled && l.settled != nil {
		close(l.settled)
		l.settled = nil
	}
	if fx.Event.Kind != "" {
		e := l.event(fx.Event.Kind, now.Mono)
		e.Remaining, e.Attempt, e.WillRetry, e.Err = fx.Event.Remaining, fx.Event.Attempt, fx.Event.WillRetry, fx.Event.Err
		l.m.observers.Publish(l.observer, l.id, &e)
	}
	if fx.Lost == nil {
		if fx.CleanUp == nil {
			return nil
		}
		return &followUp{lease: l, cleanUp: l.cleanupOf(fx.CleanUp)}
	}
	e := l.event(abstractions.EventLost, now.Mono)
	e.Reason, e.BrokenBy, e.BreakReason = fx.Lost.Reason, fx.Lost.BrokenBy, fx.Lost.BreakReason
	e.Err, e.LastRenewal = fx.Lost, l.m.clock.Time(l.life.LastSent().Mono)
	l.m.observers.Publish(l.observer, l.id, &e)
	return &followUp{lease: l, lost: fx.Lost, cleanUp: l.cleanupOf(fx.CleanUp)}
}

// event returns an Event about the lease. Publish adds the fingerprint. Caller holds mu.
func (l *lease) event(kind abstractions.EventKind, now time.Duration) abstractions.Event {
	return abstractions.Event{
		Kind: kind, Time: l.m.clock.Time(now), Coalesced: 1,
		Name: l.name, Owner: l.m.config.Owner, Token: l.token, TTL: l.life.TTL(), Renewals: l.life.Renewals(),
	}
}

// reschedule sets the time at which the loop next checks the lease. Caller holds mu.
func (l *lease) reschedule(now trust.Instant) {
	due, early := l.life.Next(now)
	l.m.timetable.Set(l, trust.AddSaturated(now.Mono, due), early)
	if l.m.timetable.MissedSuspend(now) {
		l.m.timetable.MakeDueNow(l) // the machine was suspended after now was read, and the loop noticed before the lease was in the timetable
	}
}

// cleanupOf returns the clean-up that life asks for, or nil. Caller holds mu.
func (l *lease) cleanupOf(c *lifecycle.CleanUp) *cleanup {
	switch {
	case c == nil:
		return nil
	case c.ByID:
		return &cleanup{req: abstractions.ReleaseRequest{Name: l.name, ID: l.id}, tries: lifecycle.Tries{CleanUp: *c}}
	}
	return &cleanup{req: l.releaseRequest(), tries: lifecycle.Tries{CleanUp: *c}}
}

// followUp has the steps that are left to take after an input, once the lock is free.
type followUp struct {
	lease   *lease
	lost    *abstractions.LostError // nil unless the lease has just been lost
	cleanUp *cleanup                // after a renewal that may hold the name for another TTL; or nil
}

// run takes the steps, if there are any, and does not wait.
func (x *followUp) run() {
	if x == nil {
		return
	}
	l, m := x.lease, x.lease.m
	if x.lost == nil {
		m.cleanUp(x.cleanUp, nil)
		return
	}
	defer func() { // a renewal may still be queued, and will not be sent
		l.mu.Lock()
		defer l.mu.Unlock()
		l.apply(trust.Instant{}, l.life.Settle())
	}()
	m.outage.noteLoss(m.clock, x.lost.Reason)
	m.cleanUp(x.cleanUp, nil)
	m.retire(l)
	m.telemetry.Lost(l.scope, x.lost.Reason)
	if l.trace != nil {
		m.goTracked(func() { m.telemetry.SpanOfLoss(l.trace, l.subject(0, 0), x.lost) }) // the end of a span may export it, and the loop must not wait
	}
}

// retire removes an ended lease from the manager.
func (m *Manager) retire(l *lease) {
	m.queues.afterEnd(l)
	m.unregister(l)
	m.telemetry.Held(l.scope, m.clock.Mono()-l.acquiredAt)
}

// endedError returns the error of an operation on an ended lease.
func (l *lease) endedError(op string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.m.wrap(op, l.name, l.id, l.life.Err())
}

// subject describes the lease for a span.
func (l *lease) subject(ttl time.Duration, attempts int) instrument.Subject {
	return instrument.Subject{Name: l.name, ID: l.id, Token: l.token, TTL: ttl, Attempts: attempts}
}
