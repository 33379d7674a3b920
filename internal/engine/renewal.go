package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/dispatch"
	"github.com/distributedleasing/leasing/internal/instrument"
	"github.com/distributedleasing/leasing/internal/lifecycle"
	"github.com/distributedleasing/leasing/internal/trust"
)

var (
	errNoAnswer = fmt.Errorf("%w: the batch has no answer for this lease", abstractions.ErrUnavailable)
	errTooLate  = fmt.Errorf("%w: the answer came after its own trust had run out", abstractions.ErrUnavailable)
)

// beginRenewal returns the request to send at the given instant, and its
// bound. ok is false if the lease has ended.
func (l *lease) beginRenewal(sent trust.Instant) (req abstractions.RenewRequest, bound time.Duration, ok bool) {
	l.mu.Lock()
	r, ok, fx := l.life.BeginRenewal(sent)
	next := l.apply(sent, fx)
	l.mu.Unlock()
	next.run()
	req = abstractions.RenewRequest{Name: l.name, ID: l.id, Token: l.token, TTL: r.TTL, State: r.State, Metadata: r.Metadata}
	if req.Metadata != nil {
		req.Metadata = l.trace.With(req.Metadata)
	}
	return req, r.Bound, ok
}

// renewAlone makes one attempt for one lease. divisor divides the bound of the
// attempt: see dispatch.Jobs.
func (l *lease) renewAlone(ctx context.Context, divisor time.Duration) error {
	sent := l.m.clock.Now()
	req, bound, ok := l.beginRenewal(sent)
	if !ok {
		return l.endedError("renew")
	}
	ttl := req.TTL
	b := dispatch.WithBound(ctx, bound/divisor)
	defer b.Cancel()
	ctx, span := l.m.telemetry.StartLinked(b, "leasing.renew", l.trace)
	defer span.End()
	attempts := 0
	if span.IsRecording() {
		attempts = l.renewalAttempts()
	}
	grant, err := dispatch.Send(ctx, l.m.requests, &l.overdueRenewals, l.m.provider, abstractions.Provider.Renew, req, l)
	if err != nil && dispatch.CutOff(ctx, err) {
		err = lifecycle.NoAnswer(err)
	}
	err = l.finishRenewal(sent, l.m.clock.Now(), grant, err, nil)
	l.m.telemetry.Describe(span, l.subject(ttl, attempts), err)
	return err
}

// renewalAttempts counts the renewals sent since the last success, including the renewal under way.
func (l *lease) renewalAttempts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.life.Failures() + 1
}

// renewalAnswer returns the result of a request as an input to life, which does not inspect errors itself.
func renewalAnswer(grant abstractions.Grant, err error) lifecycle.Answer {
	a := lifecycle.Answer{Grant: grant, Err: err, Applied: err == nil || !abstractions.NotApplied(err)}
	if err == nil {
		return a
	}
	a.Permanent = isPermanent(err) || isDenied(err)
	if errors.Is(err, abstractions.ErrLost) {
		a.Lost = lossOf(err)
	}
	if throttled := (*abstractions.ThrottledError)(nil); errors.As(err, &throttled) {
		a.Throttled = throttled
	}
	return a
}

// finishRenewal ends a renewal by the engine or the application, alone or in a batch: life extends the trust, ends the lease, or
// plans the retry. It returns the error for the caller of Renew. A batch sums up its renewals in measured, and records the sums.
func (l *lease) finishRenewal(sent, now trust.Instant, grant abstractions.Grant, err error, measured map[*instrument.Scope]instrument.Renewed) error {
	m := l.m
	if err == nil {
		err = l.checkGrant(grant)
	}
	if err == nil && !m.rules.Trusts(now, sent, grant.TTL) {
		err = errTooLate
	}
	err = lifecycle.MarkTimeout(err)
	answer, random, took := renewalAnswer(grant, err), m.random(), now.Mono-sent.Mono
	m.outage.note(m.running, m.clock, err)

	l.mu.Lock()
	result, margin, fx := l.life.Answered(sent, now, &answer, random)
	next := l.apply(now, fx)
	collected := result == lifecycle.Renewed && l.handleCollected()
	l.mu.Unlock()

	next.run()
	switch {
	case result == lifecycle.Late:
		return l.endedError("renew")
	case err == nil:
		if collected {
			m.log(slog.LevelWarn, "leasing: a lease was dropped without a release, and is renewed until the manager is closed", "name", l.name, "token", l.token)
		}
		if one := (instrument.Renewed{Count: 1, Margin: margin}); measured == nil {
			m.telemetry.Renewals(l.scope, took, one)
		} else {
			measured[l.scope] = measured[l.scope].Add(one)
		}
		return nil
	}
	m.telemetry.RenewalFailed(l.scope, took, err)
	if fx.Lost != nil {
		return l.endedError("renew")
	}
	return m.wrap("renew", l.name, l.id, err)
}

// renewNow makes the loop send the next renewal now, unless the lease is renewed by hand.
func (l *lease) renewNow() {
	now := l.m.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.apply(now, l.life.RenewNow(now))
}

// renewalUnderWay returns a channel that is closed when the renewal under way has ended. Caller holds mu.
func (l *lease) renewalUnderWay() <-chan struct{} {
	if l.settled == nil {
		l.settled = make(chan struct{})
	}
	return l.settled
}

// Renew is the application's own renewal. It joins the renewal under way, or makes a new attempt.
// It differs from the engine's renewals only in that a caller waits for the result.
func (l *lease) Renew(ctx context.Context) error {
	ctx = orBackground(ctx)
	ctxDone := ctx.Done() // the methods of ctx are the application's and may panic, so the call comes before any change
	var ctxErr, err error
	if ctx.Err() != nil {
		ctxErr = context.Cause(ctx)
	}
	now := l.m.clock.Now()
	l.mu.Lock()
	next := l.apply(now, l.life.Expire(now))
	over := l.life.Over()
	mine, usedUp := l.life.AskRenewal()
	switch {
	case !mine:
	case usedUp:
		err = &abstractions.InvalidError{Field: "AcquireOptions.MaxRenewals", Value: l.settings.MaxRenewals, Want: "more, to renew again: all are used up"}
	case ctxErr != nil:
		err = ctxErr
	case !l.m.track():
		err = abstractions.ErrClosed
	default:
		l.apply(now, l.life.StartRenewal())
	}
	settled := l.renewalUnderWay()
	l.mu.Unlock()
	next.run()
	switch {
	case over:
		return l.endedError("renew")
	case err != nil:
		return l.m.wrap("renew", l.name, l.id, err)
	case mine && ctxDone == nil: // the caller's context never ends
		l.renewDetached(ctx)
	case mine:
		go l.renewDetached(ctx)
	}
	select {
	case <-settled:
	case <-ctxDone:
		return l.m.wrap("renew", l.name, l.id, context.Cause(ctx))
	}
	l.mu.Lock()
	failure, over := l.life.Failure(), l.life.Over()
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
			_ = l.finishRenewal(now, now, abstractions.Grant{}, fmt.Errorf("%w: the context of Renew panicked: %v", abstractions.ErrUnavailable, p), nil)
		}
	}()
	_ = l.renewAlone(dispatch.WithValuesOf(l.m.running, ctx), 1) // the callers that joined the attempt read its result
}

// lossOf returns the loss that a provider reports, with the underlying error.
func lossOf(err error) *abstractions.LostError {
	reported := (*abstractions.LostError)(nil)
	if !errors.As(err, &reported) {
		return &abstractions.LostError{Reason: abstractions.LostGone, Err: err}
	}
	loss := *reported
	loss.Reason = cmp.Or(reported.Reason, abstractions.LostGone)
	where := (*abstractions.Error)(nil)
	if errors.As(err, &where) && error(where) == err { //nolint:errorlint // the outermost only
		err = where.Err // the caller knows the failed operation
	}
	if err != error(reported) { //nolint:errorlint // a wrapper may add details
		loss.Err = err
	}
	return &loss
}
