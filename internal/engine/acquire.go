package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"weak"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/dispatch"
	"github.com/distributedleasing/leasing/internal/instrument"
	"github.com/distributedleasing/leasing/internal/lifecycle"
	"github.com/distributedleasing/leasing/internal/trust"
)

var errGrantTooLate = fmt.Errorf("%w: the grant came after its own trust had run out", abstractions.ErrUnavailable)

func (m *Manager) TryAcquire(ctx context.Context, name string, options abstractions.AcquireOptions) (abstractions.Lease, error) {
	return m.obtain(ctx, "leasing.acquire", m.askOnce, &lease{name: name, id: abstractions.NewID()}, "AcquireOptions", options)
}

func (m *Manager) Acquire(ctx context.Context, name string, options abstractions.AcquireOptions) (abstractions.Lease, error) {
	return m.obtain(ctx, "leasing.acquire", m.queues.wait, &lease{name: name, id: abstractions.NewID()}, "AcquireOptions", options)
}

// obtain is shared by acquires and adoptions. get sends the request, and optionsType names the options in errors.
func (m *Manager) obtain(
	ctx context.Context, spanName string, get func(context.Context, *lease) error, l *lease, optionsType string, options abstractions.AcquireOptions,
) (abstractions.Lease, error) {
	ctx = orBackground(ctx)
	op := strings.TrimPrefix(spanName, "leasing.")
	m.calls.Add(1)
	defer m.endCall()
	if m.isClosing() {
		return nil, m.wrap(op, l.name, l.id, abstractions.ErrClosed)
	}
	err := m.caps.ValidateName(l.name)
	if err == nil {
		policyName := l.name
		if l.adopted { // no policy chooses a TTL: the lease keeps its own
			policyName = ""
		}
		l.settings, err = m.config.Settings(optionsType, options, policyName)
	}
	if err != nil {
		return nil, m.wrap(op, l.name, l.id, err)
	}
	l.m, l.scope, l.ctx, l.life = m, m.telemetry.Scope(l.name), ctx, lifecycle.New(&m.rules, &l.settings.Settings)
	spanCtx, span := m.telemetry.Start(ctx, spanName)
	defer span.End()
	l.trace = instrument.NewTrace(ctx, spanCtx, l.adopted)

	began := m.clock.Mono()
	held, delivered := false, false
	defer func() {
		if held && !delivered { // the telemetry panicked: no caller has the lease
			m.goTracked(func() { _ = l.Release(context.Background()) })
		}
	}()
	err = get(spanCtx, l)
	held = err == nil
	m.telemetry.Acquired(l.scope, m.clock.Mono()-began, err)
	if err != nil {
		err = m.wrap(op, l.name, l.id, err)
	}
	m.telemetry.Describe(span, l.subject(l.settings.TTL, l.trace.Requests()), err)
	if err != nil {
		return nil, err
	}
	delivered = true
	return l.newHandle(), nil
}

// handle is the holder's reference to a lease. After the first renewal the manager has only a weak pointer to the handle, so the
// runtime can collect the handle of a holder that has dropped the lease.
type handle struct{ *lease }

func (l *lease) newHandle() *handle {
	h := &handle{l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handle = h
	return h
}

// handleCollected reports whether the handle was collected since the previous renewal. It returns true only once.
// Most leases end before their first renewal, and never need the weak pointer. Caller holds mu.
func (l *lease) handleCollected() bool {
	switch {
	case l.handle != nil:
		l.weakHandle, l.handle = weak.Make(l.handle), nil
	case l.weakHandle != weak.Pointer[handle]{} && l.weakHandle.Value() == nil:
		l.weakHandle = weak.Pointer[handle]{}
		return true
	}
	return false
}

// askOnce makes one request, and does not wait for the name to become free.
func (m *Manager) askOnce(ctx context.Context, l *lease) error {
	held := false
	defer func() {
		if !held && l.life.Ambiguous() {
			m.abandon(l, nil)
		}
	}()
	if err := m.awaitCleanUps(ctx, l.name); err != nil {
		return err
	}
	if err := m.ask(ctx, l); err != nil {
		return m.ownHolder(err)
	}
	held = true
	return nil
}

// ask makes one request for a claim. Trust in the grant counts from the instant
// before the request is sent.
func (m *Manager) ask(ctx context.Context, l *lease) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.trace.CountRequest()
	ttl := l.settings.FirstTTL
	sent := m.clock.Now()
	reqCtx := dispatch.WithBound(ctx, min(m.rules.Window(ttl), m.config.RequestTimeout))
	defer reqCtx.Cancel()
	var grant abstractions.Grant
	var err error
	if l.adopted {
		req := abstractions.RenewRequest{Name: l.name, ID: l.id, Token: l.token, TTL: ttl, Metadata: l.settings.Metadata}
		grant, err = dispatch.Send(reqCtx, m.requests, &l.overdueAcquires, m.provider, abstractions.Provider.Renew, req, nil)
	} else {
		req := abstractions.AcquireRequest{Name: l.name, ID: l.id, Owner: m.config.Owner, TTL: ttl, Metadata: l.trace.With(l.settings.Metadata)}
		grant, err = dispatch.Send(reqCtx, m.requests, &l.overdueAcquires, m.provider, abstractions.Provider.Acquire, req, l)
	}
	m.outage.note(ctx, m.clock, err)
	if err == nil {
		err = l.checkGrant(grant)
	}
	if err == nil {
		return l.begin(ctx, grant, sent)
	}
	if held := (*abstractions.HeldError)(nil); errors.As(err, &held) {
		m.noteRecord(l.name, &held.Holder)
		l.trace.LinkHolder(ctx, &held.Holder)
	}
	late := dispatch.CutOff(reqCtx, err)
	if !l.adopted && (late || !abstractions.NotApplied(err)) {
		l.life.Unanswered(sent)
	}
	if late && ctx.Err() == nil { // the request's own bound ended the request
		return lifecycle.NoAnswer(err)
	}
	return err
}

// checkGrant refuses an answer for another claim or, once this claim has a token, for another token.
func (l *lease) checkGrant(g abstractions.Grant) error {
	if g.ID != l.id || g.Name != l.name || l.token != 0 && g.Token != l.token || g.Token <= 0 || g.Token > abstractions.MaxToken || g.TTL <= 0 {
		return fmt.Errorf("%w: the provider answered for %q, claim %s, token %d, TTL %v", abstractions.ErrUnavailable, g.Name, abstractions.FingerprintOf(g.ID), g.Token, g.TTL)
	}
	return nil
}

// begin starts the lease of a claim that was granted by a request sent at the given instant,
// unless the grant comes too late.
func (l *lease) begin(ctx context.Context, grant abstractions.Grant, sent trust.Instant) error {
	m, now := l.m, l.m.clock.Now()
	// If a step below fails or panics, an acquired claim is cleaned up.
	switch trusted := l.life.Granted(now, sent, grant.TTL, l.adopted); {
	case !trusted:
		return errGrantTooLate
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	work := l.ctx
	if work.Done() != nil {
		work = context.WithoutCancel(work)
	}
	random := m.random()
	m.telemetry.Active(l.scope, +1)
	l.mu.Lock() // before other goroutines can find the lease, so that Acquired is the first event
	previous := l.token
	l.token = grant.Token
	older, err := m.register(l)
	if err != nil {
		l.token = previous // so that the clean-up identifies the claim by its ID alone
		l.mu.Unlock()
		m.telemetry.Active(l.scope, -1)
		return err
	}
	l.ctx = work
	if l.settings.Observer != nil {
		l.observer = m.observers.ForLease(l.settings.Observer)
	}
	l.acquiredAt = sent.Mono
	l.apply(now, l.life.Begin(now, sent, grant, random))
	l.mu.Unlock()
	if older {
		m.endOlder(l.name, l.token, abstractions.FingerprintOf(l.id))
	}
	return nil
}

// abandon cleans up a claim that was given up while the outcome of a request was unknown. settled is called when the release has
// succeeded or failed.
func (m *Manager) abandon(l *lease, settled func()) {
	l.mu.Lock()
	c := l.life.Abandon()
	l.mu.Unlock()
	if !m.cleanUp(l.cleanupOf(&c), settled) { // the manager has ended
		_ = m.sendRelease(context.Background(), &l.overdueReleases, min(releaseGrace, m.config.RequestTimeout), l.releaseRequest())
	}
}

// RepliedLate handles the reply to an acquire or a renewal that had not returned when its context
// ended: the request may have been applied as late as now.
func (l *lease) RepliedLate(grant abstractions.Grant, err error) {
	applied, m, now := renewalAnswer(grant, err).Applied, l.m, l.m.clock.Now()
	l.mu.Lock()
	abandoned := l.life.Phase() == lifecycle.Abandoned
	c := l.cleanupOf(l.life.RepliedLate(now, applied))
	l.mu.Unlock()
	if abandoned && c != nil && m.running.Err() != nil { // no loop is left to retry the release
		_ = m.sendRelease(context.Background(), &l.overdueReleases, m.config.RequestTimeout, l.releaseRequest())
		return
	}
	m.cleanUp(c, nil)
}

// ownHolder marks the holder in the error of an acquire if that holder is a lease of this manager.
// The search may go through all leases, so ownHolder runs only once, at the end of the acquire.
func (m *Manager) ownHolder(err error) error {
	switch err := err.(type) { //nolint:errorlint // the forms in which providers return a HeldError; other errors stay as they are
	case *abstractions.HeldError:
		m.mu.Lock()
		defer m.mu.Unlock()
		if err.ByThisManager || err.Holder.Owner != m.config.Owner || !m.isOwnClaim(&err.Holder) {
			return err
		}
		own := *err
		own.ByThisManager = true
		return &own
	case *abstractions.Error:
		own := *err
		own.Err = m.ownHolder(err.Err)
		return &own
	}
	return err
}
