package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/dispatch"
	"github.com/distributedleasing/leasing/internal/lifecycle"
	"github.com/distributedleasing/leasing/internal/trust"
)

// releaseGrace bounds Release's wait after its context has ended, and the last attempts of a manager that is closed.
const releaseGrace = time.Second

// errManagerClosed is the cause with which Close ends the work under a lease.
var errManagerClosed = fmt.Errorf("manager %w", abstractions.ErrClosed)

var errReleasePanicked = fmt.Errorf("%w: the release was cut off by a panic", abstractions.ErrUnavailable)

func (l *lease) Release(ctx context.Context) error {
	ctx = orBackground(ctx)
	now := l.m.clock.Now()
	l.mu.Lock()
	before, await, fx := l.life.AskRelease(now)
	next := l.apply(now, fx)
	outcome := l.life.Outcome()
	var underWay <-chan struct{} // a renewal that could arrive after the one that shortens the lease
	switch {
	case await:
		underWay = l.renewalUnderWay()
	case before == lifecycle.Releasing && l.done == nil:
		l.done = make(chan struct{})
	}
	done := l.done
	l.mu.Unlock()
	next.run()
	switch before {
	case lifecycle.Releasing:
		return l.awaitRelease(ctx, done)
	case lifecycle.Ended:
		l.releaseAfterClose(ctx, outcome)
		return l.m.wrap("release", l.name, l.id, outcome)
	}
	return l.releaseNow(ctx, now, underWay)
}

// releaseNow sends the release. It is called once for each lease. It ends the lease
// even after a panic: the context, the telemetry and the logger are the application's
// code.
func (l *lease) releaseNow(ctx context.Context, now trust.Instant, underWay <-chan struct{}) (err error) {
	err = errReleasePanicked
	defer func() {
		retryable := err != nil && (!isRefused(err) || isDenied(err))
		l.mu.Lock()
		c := l.cleanupOf(l.life.AfterRelease(now, err != nil, retryable))
		l.mu.Unlock()
		l.m.cleanUp(c, nil)
		err = l.finishRelease(now.Mono, err)
	}()
	l.m.queues.beforeRelease(l)
	ctx, span := l.m.telemetry.StartLinked(ctx, "leasing.release", l.trace)
	defer span.End()
	l.awaitRenewal(ctx, underWay)
	l.mu.Lock()
	bound := l.life.ReleaseBound()
	l.mu.Unlock()
	attempts, err := l.releaseWithin(ctx, bound)
	l.m.telemetry.Describe(span, l.subject(0, attempts), err)
	return err
}

// finishRelease reports the end of a release.
func (l *lease) finishRelease(began time.Duration, err error) error {
	now := trust.Instant{Mono: l.m.clock.Mono()}
	err = l.m.wrap("release", l.name, l.id, err)
	l.mu.Lock()
	l.apply(now, l.life.Released(err))
	if l.done != nil {
		close(l.done)
	}
	l.mu.Unlock()
	l.m.retire(l)
	l.m.telemetry.Released(l.scope, now.Mono-began, err)
	return err
}

// awaitRelease waits for the release under way.
func (l *lease) awaitRelease(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
	case <-ctx.Done():
		return l.m.wrap("release", l.name, l.id, fmt.Errorf("%w: another release of it is under way", context.Cause(ctx)))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.life.Outcome()
}

// releaseWithin releases the lease at the backend, and returns the number of attempts. It retries until the backend
// answers or the bound has passed, after which the backend will have freed the name by itself. The requests do not
// end with ctx: see Lease.Release. Renewals that hang do not count against the limit of overdue releases, so a
// release may still get through.
func (l *lease) releaseWithin(ctx context.Context, bound time.Duration) (attempts int, err error) {
	m, began := l.m, l.m.clock.Mono()
	if ctx.Done() != nil {
		detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(releaseGrace, cancel) })
		defer stop()
		ctx = detached
	}
	for n, left := 1, bound; ; n++ {
		err := l.releaseOrShorten(ctx, min(m.config.RequestTimeout, left))
		if err == nil || isRefused(err) {
			return n, err
		}
		left = bound - (m.clock.Mono() - began)
		pause := min(lifecycle.RetryPause(n, bound, bound, m.random()), left)
		select {
		case <-time.After(pause):
			left -= pause
		case <-ctx.Done():
			left = 0
		}
		if left <= 0 {
			return n, asUnavailable(err)
		}
	}
}

// awaitRenewal waits for the renewal under way, if any, whose own bound is at most RequestTimeout.
func (l *lease) awaitRenewal(ctx context.Context, underWay <-chan struct{}) {
	if underWay == nil {
		return
	}
	timer := time.NewTimer(l.m.config.RequestTimeout + 2*dispatch.ReplyGrace)
	defer timer.Stop()
	select {
	case <-underWay:
		return
	case <-ctx.Done():
	case <-timer.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.apply(trust.Instant{}, l.life.AwaitTimedOut())
}

// releaseOrShorten makes one attempt to give the lease up or, before the end of AcquireOptions.AtLeast, to shorten the
// lease to the rest of that time.
func (l *lease) releaseOrShorten(ctx context.Context, bound time.Duration) error {
	m, now := l.m, l.m.clock.Now()
	l.mu.Lock()
	step, ttl := l.life.NextStep(now)
	l.mu.Unlock()
	switch step {
	case lifecycle.SendRelease:
		return m.sendRelease(ctx, &l.overdueReleases, bound, l.releaseRequest())
	case lifecycle.RunOut:
		return nil
	}
	b := dispatch.WithBound(ctx, bound)
	defer b.Cancel()
	req := abstractions.RenewRequest{Name: l.name, ID: l.id, Token: l.token, TTL: ttl, State: l.life.State()}
	_, err := dispatch.Send(b, m.requests, &l.overdueReleases, m.provider, abstractions.Provider.Renew, req, nil)
	if err != nil && dispatch.CutOff(b, err) {
		return lifecycle.NoAnswer(err)
	}
	return err
}

// sendRelease sends one request to release a claim.
func (m *Manager) sendRelease(ctx context.Context, pending *dispatch.Overdue, bound time.Duration, req abstractions.ReleaseRequest) error {
	b := dispatch.WithBound(ctx, bound)
	defer b.Cancel()
	_, err := dispatch.Send(b, m.requests, pending, m.provider, func(p abstractions.Provider, ctx context.Context, req abstractions.ReleaseRequest) (none struct{}, err error) {
		return none, p.Release(ctx, req)
	}, req, nil)
	if err != nil && dispatch.CutOff(b, err) { // an error from the context is not an answer from the backend, even if it says that the request was not applied
		return lifecycle.NoAnswer(err)
	}
	return err
}

func (l *lease) releaseRequest() abstractions.ReleaseRequest {
	return abstractions.ReleaseRequest{Name: l.name, ID: l.id, Token: l.token, State: l.life.State()}
}

// isRefused reports whether the backend has answered that it did nothing, and that a second
// request can't succeed. A request that was not sent, or throttled, may work later.
func isRefused(err error) bool {
	return abstractions.NotApplied(err) && !errors.Is(err, abstractions.ErrUnavailable)
}

// releaseAfterClose frees a lease whose holder has outlasted Close, or shortens it to the rest of
// AtLeast. Close left the lease to run out, since its holder was still at work. The attempts end after releaseGrace, and
// Release returns the loss in any case.
func (l *lease) releaseAfterClose(ctx context.Context, outcome error) {
	lost := (*abstractions.LostError)(nil)
	if !errors.As(outcome, &lost) || lost.Reason != abstractions.LostClosed {
		return
	}
	_, err := l.releaseWithin(context.WithoutCancel(ctx), releaseGrace)
	if err != nil && l.TTL() == abstractions.Infinite { // it does not run out by itself
		l.m.log(slog.LevelWarn, "leasing: an infinite lease is not released", "name", l.name, "token", l.token, "error", err)
	}
}
