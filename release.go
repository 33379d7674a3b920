package leasing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// releaseGrace is how long Release goes on waiting after its context has ended.
const releaseGrace = time.Second

// errClosedRelease is the cause with which Close ends the work under a lease.
var errClosedRelease = fmt.Errorf("%w: manager %w", ErrReleased, ErrClosed)

func (l *lease) Release(ctx context.Context) error {
	l.mu.Lock()
	now := l.m.clock.now()
	if l.phase < releasing && l.until.left(now) <= 0 {
		l.lose(now, LostExpired, l.failure)
		l.mu.Lock()
	}
	switch l.phase {
	case releasing:
		return l.awaitRelease(ctx)
	case ended:
		outcome := l.outcome
		l.mu.Unlock()
		l.releaseAfterClose(ctx, outcome)
		return l.m.wrap("release", l.name, outcome)
	}
	l.endWork(ErrReleased)
	l.phase = releasing
	l.m.schedule.remove(l)
	bound := l.granted
	req := abstractions.ReleaseRequest{Name: l.name, ID: l.id, Token: l.token, State: l.state}
	l.mu.Unlock()

	l.m.queues.ending(l)
	ctx, span := l.m.telemetry.startLinked(ctx, "lease.release", l)
	defer span.End()
	if bound == Infinite {
		bound = l.plan.firstTTL
	}
	err := l.m.release(ctx, req, bound)
	if err != nil && (!abstractions.NotApplied(err) || errors.Is(err, ErrThrottled)) {
		l.m.cleanUp(&cleanup{name: l.name, id: l.id, token: l.token, state: req.State, until: now.add(l.plan.ttl)}, nil)
	} else if l.doubt.left(now) > 0 {
		l.m.cleanUp(&cleanup{name: l.name, id: l.id, until: l.doubt}, nil)
	}
	l.m.telemetry.describe(span, l.name, l.id, l.token, 0, err)
	return l.released(now.mono, err)
}

// released reports the end of a release.
func (l *lease) released(began time.Duration, err error) error {
	now := l.m.clock.mono()
	err = l.m.wrap("release", l.name, err)
	l.mu.Lock()
	l.finish(err)
	e := l.event(EventReleased, now)
	e.Err = err
	l.m.observers.publish(l.observer, e)
	if l.done != nil {
		close(l.done)
	}
	l.mu.Unlock()
	l.m.telemetry.released(l.scope, now-began, now-l.acquired.mono, err)
	l.m.retire(l)
	return err
}

// awaitRelease waits for the release under way. Needs mu; unlocks.
func (l *lease) awaitRelease(ctx context.Context) error {
	if l.done == nil {
		l.done = make(chan struct{})
	}
	done := l.done
	l.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
		return l.m.wrap("release", l.name, fmt.Errorf("%w: another release of it is under way", context.Cause(ctx)))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outcome
}

// release gives a claim up at the backend, trying again until it answers or
// the bound has passed, after which the backend will have freed the name by
// itself. The request does not end with ctx: see Lease.Release.
func (m *manager) release(ctx context.Context, req abstractions.ReleaseRequest, bound time.Duration) error {
	detached, cancel := bounded(context.WithoutCancel(ctx), bound)
	defer cancel()
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(releaseGrace, cancel) })
		defer stop()
	}
	for n := 1; ; n++ {
		err := m.releaseOnce(detached, req)
		if err == nil || abstractions.NotApplied(err) && !errors.Is(err, ErrThrottled) {
			return err
		}
		if !sleep(detached, retryPause(n, bound, bound, m.options.Random())) {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

func (m *manager) releaseOnce(ctx context.Context, req abstractions.ReleaseRequest) error {
	ctx, cancel := bounded(ctx, m.options.RequestTimeout)
	defer cancel()
	return m.provider.Release(ctx, req)
}

// releaseAfterClose frees a lease whose holder has outlasted Close: it was left
// to run out, for it was in use, and now it no longer is.
func (l *lease) releaseAfterClose(ctx context.Context, outcome error) {
	lost := (*LostError)(nil)
	if !errors.As(outcome, &lost) || lost.Reason != LostClosed {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseGrace)
	defer cancel()
	// The holder hears that the lease was lost in any case.
	_ = l.m.releaseOnce(ctx, abstractions.ReleaseRequest{Name: l.name, ID: l.id, Token: l.token, State: l.state})
}

// sleep pauses for d, or returns false when ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
