package leasing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
)

var (
	errNoAnswer = fmt.Errorf("%w: the batch has no answer for this lease", ErrUnavailable)
	errTooLate  = fmt.Errorf("%w: the answer came after its own trust had run out", ErrUnavailable)
)

// beginRenewal returns the request to send at the given instant, and its
// bound. ok is false if the lease has ended.
func (l *lease) beginRenewal(sent trust.Instant) (req abstractions.RenewRequest, bound time.Duration, ok bool) {
	l.mu.Lock()
	lost := l.expire(sent)
	if ok = l.phase < releasing; ok {
		l.lastSent = sent
		req = abstractions.RenewRequest{Name: l.name, ID: l.id, Token: l.token, TTL: l.renewTTL(sent), State: l.state}
		if l.change != nil {
			if req.Metadata = l.change.carry(); req.Metadata != nil {
				req.Metadata = l.traced.with(req.Metadata)
			}
		}
		if l.terms != nil {
			l.terms.carry(l, &req, sent)
		}
		bound = attemptBound(l.until.Left(sent), l.m.options.Tuning.RequestTimeout)
	} else {
		l.settleRenewal()
	}
	l.mu.Unlock()
	if lost != nil {
		lost.report()
	}
	return req, bound, ok
}

// renewTTL returns the TTL of a renewal that is sent at the given instant: the TTL of the settings, or the rest of
// AcquireOptions.AtLeast if that is longer.
func (l *lease) renewTTL(sent trust.Instant) time.Duration {
	if l.keep == (trust.Instant{}) {
		return l.settings.ttl
	}
	return max(l.settings.ttl, whole(l.keep.Left(sent), l.m.caps))
}

// renewAlone makes one attempt for one lease. part divides the bound of the
// attempt: see overduePart.
func (l *lease) renewAlone(ctx context.Context, part time.Duration) error {
	sent := l.m.clock.Now()
	req, bound, ok := l.beginRenewal(sent)
	if !ok {
		return l.endedError("renew")
	}
	ttl := req.TTL
	b := bounded(ctx, bound/part)
	defer b.cancel()
	ctx, span := l.m.telemetry.startLinked(b, "leasing.renew", l)
	defer span.End()
	attempts := 0
	if span.IsRecording() {
		attempts = l.renewalAttempts()
	}
	grant, err := request(ctx, l.m, &l.overdue, l.m.provider, Provider.Renew, req, l)
	if err != nil && cutOff(ctx, err) {
		err = noAnswer(err)
	}
	err = l.finishRenewal(sent, l.m.clock.Now(), grant, err, nil)
	l.m.telemetry.describe(span, l.name, l.id, l.token, ttl, attempts, err)
	return err
}

// renewalAttempts counts the renewals sent since the last success, including the renewal under way.
func (l *lease) renewalAttempts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.failures) + 1
}

// verdict has the facts in an error of a renewal. The methods of errors are the
// provider's code, so judge calls them before a lock is taken.
type verdict struct {
	lost      *LostError      // if the lease is certainly lost
	applied   bool            // the request was applied, or may have been, or may yet be
	permanent bool            // a retry can't help
	throttled *ThrottledError // if the backend refused for now
}

func judge(err error) verdict {
	v := verdict{applied: err == nil || !abstractions.NotApplied(err)}
	if err == nil {
		return v
	}
	v.permanent = permanent(err) || denied(err)
	if errors.Is(err, ErrLost) {
		v.lost = lossOf(err)
	}
	if throttled := (*ThrottledError)(nil); errors.As(err, &throttled) {
		v.throttled = throttled
	}
	return v
}

// finishRenewal ends every renewal, the engine's and the
// application's, alone or in a batch: it moves the trust, ends the lease, or
// plans the retry. It returns the error of Renew. A batch adds its renewals up in
// measured, and records the sums.
func (l *lease) finishRenewal(sent, now trust.Instant, grant abstractions.Grant, err error, measured map[*scope]renewed) error {
	m := l.m
	if err == nil {
		err = l.checkGrant(grant)
	}
	if err == nil && sent.Add(m.options.window(grant.TTL)).Left(now) <= 0 {
		err = errTooLate
	}
	err = unanswered(err)
	v, random, took := judge(err), m.random(), now.Mono-sent.Mono
	m.outage.note(m.running, m.clock, err)

	var lost *loss
	var orphan *cleanup
	var margin time.Duration
	forgotten := false
	l.mu.Lock()
	late := l.phase >= releasing
	switch {
	case late:
		orphan = l.outlived(v, sent)
		if err == nil { // for a release that shortens the lease; its State stays, since the release may be reading it
			l.granted, l.sent = grant.TTL, sent
		}
		l.unsure = l.unsure || err != nil && v.applied
		l.settleRenewal()
	case err == nil:
		margin = l.renewed(sent, now, grant, random)
		forgotten = l.forgotten()
	case v.lost != nil:
		lost = l.lose(now, v.lost)
	default:
		lost = l.renewalFailed(now, err, v, random)
	}
	l.mu.Unlock()

	if lost != nil {
		lost.report()
	}
	switch {
	case late:
		m.cleanUp(orphan, nil)
		return l.endedError("renew")
	case err == nil:
		if forgotten {
			m.log(slog.LevelWarn, "leasing: a lease was dropped without a release, and is renewed until the manager is closed", "name", l.name, "token", l.token)
		}
		if one := (renewed{1, margin}); measured == nil {
			m.telemetry.renewals(l.scope, took, one)
		} else {
			measured[l.scope] = measured[l.scope].and(one)
		}
		return nil
	}
	m.telemetry.renewalFailed(l.scope, took, err)
	if lost != nil {
		return l.endedError("renew")
	}
	return m.wrap("renew", l.name, l.id, err)
}

// outlived returns the clean-up after a renewal that may live on in the backend
// while its lease was lost, or nil if no clean-up is needed. Caller holds mu.
func (l *lease) outlived(v verdict, sent trust.Instant) *cleanup {
	lost, ok := l.outcome.(*LostError) //nolint:errorlint // as lose has set it
	if !ok || lost.Reason == LostClosed || !v.applied {
		return nil
	}
	return l.orphan(sent)
}

// renewed moves the trust, and returns the rest of the earlier trust. Caller holds mu.
func (l *lease) renewed(sent, now trust.Instant, grant abstractions.Grant, random float64) (margin time.Duration) {
	margin = l.until.Left(now)
	trusted := grant.TTL
	if l.terms != nil {
		trusted = l.terms.renewed(grant.TTL)
	}
	l.until = sent.Add(l.m.options.window(trusted))
	l.granted, l.state, l.sent = grant.TTL, grant.State, sent
	l.renewals++
	if l.change != nil {
		l.change.renewed(sent)
	}
	l.recovered()
	l.planRenewal(random)
	l.settleRenewal()
	l.reschedule(now)
	e := l.event(EventRenewed, now.Mono)
	e.Remaining = l.until.Left(now)
	l.m.observers.publish(l.observer, l.id, &e)
	return margin
}

// renewalFailed plans the retry, unless trust is over. Caller holds mu, and
// reports the loss.
func (l *lease) renewalFailed(now trust.Instant, err error, v verdict, random float64) *loss {
	left := l.until.Left(now)
	if l.failures++; l.failures == 1 {
		l.m.failing.Add(1)
	}
	err = after(l.failure, err)
	l.failure = err
	if l.change != nil {
		l.change.failed(l.lastSent.Add(l.settings.firstTTL), err, v)
	}
	l.unknown, l.unsure = l.unknown || v.applied, l.unsure || v.applied
	if l.terms != nil && v.applied {
		l.terms.doubted()
	}
	if l.settings.cadence != trust.Forever {
		pause := min(retryPause(int(l.failures), l.settings.firstTTL, left, random), l.settings.cadence)
		if v.throttled != nil {
			pause = min(max(pause, v.throttled.RetryAfter), max(left/3, minRetry), max(l.settings.cadence, minRetry))
		}
		l.renewIn = now.Mono - l.lastSent.Mono + pause
	}
	e := l.event(EventRenewalFailed, now.Mono)
	e.Remaining, e.Attempt, e.Err = max(left, 0), int(l.failures), err
	e.WillRetry = l.settings.cadence != trust.Forever && l.nextRenew().Left(now) < left
	l.m.observers.publish(l.observer, l.id, &e)
	if left <= 0 {
		return l.lose(now, &LostError{Reason: LostExpired, Err: cmp.Or(answerOf(err), err)})
	}
	l.settleRenewal()
	l.reschedule(now)
	return nil
}

// recovered notes that the last renewal did not fail. Caller holds mu.
func (l *lease) recovered() {
	if l.failures > 0 {
		l.m.failing.Add(-1)
	}
	l.failures, l.failure, l.unknown = 0, nil, false
}

// nextRenew returns the time of the next renewal. Caller holds mu.
func (l *lease) nextRenew() trust.Instant { return l.lastSent.Add(l.renewIn) }

// renewNow makes the loop send the next renewal now, unless the lease is renewed by hand.
func (l *lease) renewNow() {
	now := l.m.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase < releasing && l.settings.cadence != trust.Forever {
		l.renewIn = min(l.renewIn, now.Mono-l.lastSent.Mono)
		l.reschedule(now)
	}
}

// planRenewal sets the time of the next renewal, counted from the sending of the last. Caller
// holds mu.
func (l *lease) planRenewal(random float64) {
	cadence := l.settings.cadence
	if l.usedUp() || cadence == trust.Forever {
		l.renewIn = trust.Forever
		return
	}
	if trusted := min(l.granted, l.terms.least()); trusted < l.settings.ttl && l.settings.ttl != Infinite { // less than the requested TTL
		cadence = min(cadence, time.Duration(defaultFraction*float64(trusted)))
	}
	l.renewIn = cadence - time.Duration(float64(cadence)*renewJitter*random)
}

// renewalUnderWay returns a channel that settleRenewal closes. Caller holds mu.
func (l *lease) renewalUnderWay() <-chan struct{} {
	if l.settled == nil {
		l.settled = make(chan struct{})
	}
	return l.settled
}

// settleRenewal wakes the waiters for the renewal under way. The lease's fields then
// show the result of that renewal. Caller holds mu.
func (l *lease) settleRenewal() {
	l.renewing = false
	if l.settled != nil {
		close(l.settled)
		l.settled = nil
	}
}

// Renew is the application's own renewal. It joins the renewal under way, or makes a new attempt.
// It differs from the engine's renewals only in that a caller waits for the result.
func (l *lease) Renew(ctx context.Context) error {
	ctx = orBackground(ctx)
	left := ctx.Done() // the methods of ctx are the application's and may panic, so the call comes before any change
	var cut, err error
	if ctx.Err() != nil {
		cut = context.Cause(ctx)
	}
	now := l.m.clock.Now()
	l.mu.Lock()
	lost := l.expire(now)
	over, mine := l.phase >= releasing, !l.renewing
	switch {
	case over, !mine:
	case l.usedUp():
		err = &InvalidError{Field: "AcquireOptions.MaxRenewals", Value: l.settings.maxRenewals, Want: "more, to renew again: all are used up"}
	case cut != nil:
		err = cut
	case !l.m.track():
		err = ErrClosed
	default:
		l.renewing = true
		l.reschedule(now)
	}
	settled := l.renewalUnderWay()
	l.mu.Unlock()
	if lost != nil {
		lost.report()
	}
	switch {
	case over:
		return l.endedError("renew")
	case err != nil:
		return l.m.wrap("renew", l.name, l.id, err)
	case mine && left == nil: // the caller's context never ends
		l.renewDetached(ctx)
	case mine:
		go l.renewDetached(ctx)
	}
	select {
	case <-settled:
	case <-left:
		return l.m.wrap("renew", l.name, l.id, context.Cause(ctx))
	}
	l.mu.Lock()
	failure, over := l.failure, l.phase >= releasing
	l.mu.Unlock()
	switch {
	case over:
		return l.endedError("renew")
	case failure != nil:
		return l.m.wrap("renew", l.name, l.id, failure)
	}
	return nil
}

// renewDetached makes an attempt that ends with the manager, and not with ctx: other
// callers of Renew may join the attempt. The manager already counts the attempt.
func (l *lease) renewDetached(ctx context.Context) {
	defer l.m.goroutines.Done()
	defer func() {
		if p := recover(); p != nil { // telemetry reads the values of ctx, which are the application's code
			now := l.m.clock.Now()
			_ = l.finishRenewal(now, now, abstractions.Grant{}, fmt.Errorf("%w: the context of Renew panicked: %v", ErrUnavailable, p), nil)
		}
	}()
	_ = l.renewAlone(detached{l.m.running, ctx}, 1) // the callers that joined the attempt read its result
}

// lossOf returns the loss that a provider reports, with the underlying error.
func lossOf(err error) *LostError {
	told := (*LostError)(nil)
	if !errors.As(err, &told) {
		return &LostError{Reason: LostGone, Err: err}
	}
	loss := *told
	loss.Reason = cmp.Or(told.Reason, LostGone)
	where := (*Error)(nil)
	if errors.As(err, &where) && error(where) == err { //nolint:errorlint // the outermost only
		err = where.Err // the caller knows the failed operation
	}
	if err != error(told) { //nolint:errorlint // only the bare form adds nothing of its own
		loss.Err = err
	}
	return &loss
}

// minRetry is the shortest pause before a retry, and so the least
// trust in which another attempt makes sense.
const minRetry = 5 * time.Millisecond

// attemptBound returns the bound of one renewal: a third of the trust left, so
// that three attempts fit.
func attemptBound(left, limit time.Duration) time.Duration {
	if left == trust.Forever {
		return limit
	}
	return min(left/3, limit)
}

// retryPause is the pause after the n-th failure in a row (from 1): it doubles
// from a fiftieth of the TTL (at most a second), is jittered by a half, and stays within a tenth
// of the trust left, so that attempts grow denser towards the end.
func retryPause(n int, ttl, left time.Duration, random float64) time.Duration {
	pause := time.Duration(math.Ldexp(float64(min(ttl/50, time.Second)), min(n-1, 10)))
	pause = min(pause, left/10)
	pause -= time.Duration(float64(pause) * random / 2)
	return max(pause, minRetry)
}
