package leasing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

var (
	errNoAnswer = fmt.Errorf("%w: the batch has no answer for this lease", ErrUnavailable)
	errTooLate  = fmt.Errorf("%w: the answer came after its own trust had run out", ErrUnavailable)
)

// beginRenewal readies a request that is sent at the given instant, and says
// how long it may take. It is not ok if the lease has ended meanwhile.
func (l *lease) beginRenewal(sent instant) (req abstractions.RenewRequest, bound time.Duration, ok bool) {
	l.mu.Lock()
	left := l.until.left(sent)
	if l.phase >= releasing || left <= 0 {
		l.settleRenewal()
		l.unlockIfExpired(sent)
		return abstractions.RenewRequest{}, 0, false
	}
	l.lastSent = sent
	req = abstractions.RenewRequest{Name: l.name, ID: l.id, Token: l.token, TTL: l.plan.ttl, State: l.state, Metadata: l.carryMetadata()}
	l.mu.Unlock()
	return req, attemptBound(left, l.m.options.RequestTimeout), true
}

// renewAlone makes one attempt for one lease.
func (l *lease) renewAlone(ctx context.Context) error {
	sent := l.m.clock.now()
	req, bound, ok := l.beginRenewal(sent)
	if !ok {
		return l.endedError()
	}
	ctx, cancel := bounded(ctx, bound)
	defer cancel()
	ctx, span := l.m.telemetry.startLinked(ctx, "lease.renew", l)
	defer span.End()
	grant, err := l.m.provider.Renew(ctx, req)
	if cutOff(ctx, err) {
		err = fmt.Errorf("%w: %v", ErrUnavailable, err)
	}
	err = l.finishRenewal(sent, l.m.clock.now(), grant, err, nil)
	l.m.telemetry.describe(span, l.name, l.id, l.token, l.plan.ttl, err)
	return err
}

// finishRenewal is where every renewal ends, the engine's and the
// application's, alone or in a batch: it moves the trust, ends the lease, or
// plans the retry. It returns what Renew returns. A batch counts its renewals in
// renewals, and measures them together.
func (l *lease) finishRenewal(sent, now instant, grant abstractions.Grant, err error, renewals tally) error {
	m := l.m
	if err == nil {
		err = l.checkGrant(grant, sent, now)
	}
	took := now.mono - sent.mono

	l.mu.Lock()
	if l.phase >= releasing {
		var lost *LostError
		orphaned := errors.As(l.outcome, &lost) && lost.Reason != LostClosed && (err == nil || !abstractions.NotApplied(err))
		orphan := l.orphan(sent)
		l.settleRenewal()
		l.mu.Unlock()
		if orphaned {
			m.cleanUp(orphan, nil)
		}
		return l.endedError()
	}
	switch {
	case err == nil:
		l.renewed(sent, now, grant, renewals)
		return nil
	case errors.Is(err, ErrLost):
		m.telemetry.renewalFailed(l.scope, took, resultLost)
		l.loseAndSettle(now, lossOf(err))
		return l.endedError()
	default:
		return l.renewalFailed(now, err, took)
	}
}

// checkGrant refuses an answer that is not for this lease, or that came so
// late that nothing of it is left to trust.
func (l *lease) checkGrant(g abstractions.Grant, sent, now instant) error {
	switch {
	case g.ID != l.id || g.Name != l.name || g.Token != l.token || g.TTL <= 0:
		return fmt.Errorf("%w: the provider answered for %q, ID %s, token %d, TTL %v", ErrUnavailable, g.Name, g.ID, g.Token, g.TTL)
	case sent.add(l.m.drift.window(g.TTL)).left(now) <= 0:
		return errTooLate
	}
	return nil
}

// renewed moves the trust. Needs mu; unlocks.
func (l *lease) renewed(sent, now instant, grant abstractions.Grant, renewals tally) {
	margin := l.until.left(now)
	l.until = sent.add(l.m.drift.window(grant.TTL))
	l.granted, l.state, l.sent = grant.TTL, grant.State, sent
	l.renewals++
	l.metadataRenewed(sent)
	l.recovered()
	l.planRenewal(sent)
	l.settleRenewal()
	l.reschedule(now)
	e := l.event(EventRenewed, now.mono)
	e.Remaining = l.until.left(now)
	l.m.observers.publish(l.observer, e)
	l.mu.Unlock()
	l.m.telemetry.renewed(l.scope, margin)
	if renewals == nil {
		l.m.telemetry.renewals(l.scope, now.mono-sent.mono, 1)
	} else {
		renewals[l.scope]++
	}
}

// renewalFailed plans the retry. Needs mu; unlocks.
func (l *lease) renewalFailed(now instant, err error, took time.Duration) error {
	left := l.until.left(now)
	if l.failures++; l.failures == 1 {
		l.m.failing.Add(1)
	}
	l.failure = err
	l.metadataFailed(l.lastSent, err)
	l.unknown = l.unknown || !abstractions.NotApplied(err)
	if l.plan.cadence != forever {
		pause := min(retryPause(l.failures, l.plan.firstTTL, left, l.m.options.Random()), l.plan.cadence)
		if throttled := (*ThrottledError)(nil); errors.As(err, &throttled) {
			pause = min(max(pause, throttled.RetryAfter), max(left/3, minRetry), max(l.plan.cadence, minRetry))
		}
		l.nextRenew = now.add(pause)
	}
	e := l.event(EventRenewalFailed, now.mono)
	e.Remaining, e.Attempt, e.Err = max(left, 0), l.failures, err
	e.WillRetry = l.plan.cadence != forever && l.nextRenew.left(now) < left
	l.m.observers.publish(l.observer, e)
	l.m.telemetry.renewalFailed(l.scope, took, errorType(err))
	if left <= 0 {
		l.loseAndSettle(now, &LostError{Reason: LostExpired, Err: err})
		return l.endedError()
	}
	l.settleRenewal()
	l.reschedule(now)
	l.mu.Unlock()
	return l.m.wrap("renew", l.name, err)
}

// loseAndSettle ends the lease, and only then lets those go on who wait for the
// renewal: what they look at next shows the loss. Needs mu; unlocks.
func (l *lease) loseAndSettle(now instant, lost *LostError) {
	l.loseAs(now, lost)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settleRenewal()
}

// recovered notes that the last renewal did not fail. Needs mu.
func (l *lease) recovered() {
	if l.failures > 0 {
		l.m.failing.Add(-1)
	}
	l.failures, l.failure, l.unknown = 0, nil, false
}

// planRenewal sets the next renewal, counted from when the last was sent. Needs mu.
func (l *lease) planRenewal(sent instant) {
	if l.plan.maxRenewals > 0 && l.renewals >= l.plan.maxRenewals {
		l.nextRenew = instant{forever, forever}
		return
	}
	cadence := l.plan.cadence
	if l.granted < l.plan.ttl && l.plan.ttl != Infinite && cadence != forever { // less than was asked for
		cadence = min(cadence, time.Duration(defaultFraction*float64(l.granted)))
	}
	l.nextRenew = sent.add(jittered(cadence, l.m.options.Random()))
}

// settleRenewal lets those go on who wait for the renewal under way. Needs mu.
func (l *lease) settleRenewal() {
	l.renewing = false
	if l.settled != nil {
		close(l.settled)
		l.settled = nil
	}
}

// Renew is the application's own renewal. It shares everything with the
// engine's but who waits for it.
func (l *lease) Renew(ctx context.Context) error {
	l.mu.Lock()
	if l.phase >= releasing || l.until.left(l.m.clock.now()) <= 0 {
		l.unlockIfExpired(l.m.clock.now())
		return l.endedError()
	}
	if l.renewing {
		return l.joinRenewal(ctx)
	}
	if n := l.plan.maxRenewals; n > 0 && l.renewals >= n {
		l.mu.Unlock()
		return l.m.wrap("renew", l.name, &InvalidError{Field: "AcquireOptions.MaxRenewals", Value: n, Want: "more, to renew again: all are used up"})
	}
	if ctx.Err() != nil {
		l.mu.Unlock()
		return l.m.wrap("renew", l.name, context.Cause(ctx))
	}
	// The attempt is everybody's who may join it, so it does not end with ctx.
	if !l.m.spawn(func() { l.renewDetached(ctx) }) {
		l.mu.Unlock()
		return l.m.wrap("renew", l.name, ErrClosed)
	}
	l.renewing = true
	l.reschedule(l.m.clock.now())
	return l.joinRenewal(ctx)
}

// renewDetached makes an attempt that ends with the manager, and not with ctx.
func (l *lease) renewDetached(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(l.m.lifetime, cancel)()
	_ = l.renewAlone(ctx) // those who joined it read what came of it
}

// joinRenewal waits for the renewal under way. Needs mu; unlocks.
func (l *lease) joinRenewal(ctx context.Context) error {
	if l.settled == nil {
		l.settled = make(chan struct{})
	}
	settled := l.settled
	l.mu.Unlock()
	select {
	case <-settled:
	case <-ctx.Done():
		return l.m.wrap("renew", l.name, context.Cause(ctx))
	}
	l.mu.Lock()
	failure, ended := l.failure, l.phase >= releasing
	l.mu.Unlock()
	if ended {
		return l.endedError()
	}
	return l.m.wrap("renew", l.name, failure)
}

// lossOf returns the loss that a provider reports, and what stood behind it.
func lossOf(err error) *LostError {
	told := (*LostError)(nil)
	if !errors.As(err, &told) {
		return &LostError{Reason: LostGone, Err: err}
	}
	loss := *told
	loss.Reason = cmp.Or(told.Reason, LostGone)
	where := (*Error)(nil)
	if errors.As(err, &where) && error(where) == err {
		err = where.Err // which operation failed is known here
	}
	if err != error(told) { // only the bare form adds nothing of its own
		loss.Err = err
	}
	return &loss
}
