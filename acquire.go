package leasing

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/distributedleasing/leasing/abstractions"
	"go.opentelemetry.io/otel/trace"
)

var errGrantTooLate = fmt.Errorf("%w: the grant came after its own trust had run out", ErrUnavailable)

// claim is one application's wish for a name: one ID, kept over all its
// requests, so that each of them is the same claim to the backend.
type claim struct {
	name, id string
	plan     plan
	scope    *scope
	adopt    int64           // the token of a claim that is adopted; 0 for one of our own
	values   context.Context // the caller's: the lease keeps its values
	caller   *trace.SpanContext

	// unknown is set when a request's outcome is not known; it may have taken
	// the name, or may yet take it, for a TTL from lastSent.
	unknown  bool
	lastSent instant
	// abandoned is set when the wish was given up with an outcome unknown.
	abandoned atomic.Bool
	overdue   overdue
}

func (m *manager) TryAcquire(ctx context.Context, name string, options *AcquireOptions) (Lease, error) {
	return m.obtain(ctx, "acquire", m.once, name, abstractions.NewID(), options)
}

func (m *manager) Acquire(ctx context.Context, name string, options *AcquireOptions) (Lease, error) {
	return m.obtain(ctx, "acquire", m.queues.wait, name, abstractions.NewID(), options)
}

// obtain is what every way to a lease shares: pursue is how this one goes.
func (m *manager) obtain(ctx context.Context, op string, pursue pursuit, name, id string, options *AcquireOptions) (Lease, error) {
	ctx = orBackground(ctx)
	if err := m.enter(); err != nil {
		return nil, m.wrap(op, name, err)
	}
	defer m.leave()
	plan, err := m.options.plan("AcquireOptions", options, m.caps)
	if err == nil {
		err = m.caps.ValidateName(name)
	}
	if err != nil {
		return nil, m.wrap(op, name, err)
	}
	c := &claim{name: name, id: id, plan: plan, scope: m.telemetry.scope(name), values: ctx, caller: callerOf(ctx)}
	spanCtx, span := m.telemetry.start(ctx, "lease."+op)
	defer span.End()

	began := m.clock.mono()
	l, err := pursue(spanCtx, c)
	delivered := false
	defer func() {
		if l != nil && !delivered { // the telemetry panicked: nobody holds the lease
			m.goTracked(func() { _ = l.Release(background) })
		}
	}()
	m.telemetry.acquired(c.scope, m.clock.mono()-began, err)
	if err != nil {
		err = m.wrap(op, name, err)
		m.telemetry.describe(span, name, id, 0, plan.ttl, err)
		return nil, err
	}
	m.telemetry.describe(span, name, id, l.token, plan.ttl, nil)
	delivered = true
	return l, nil
}

// pursuit is a way to get the lease that a claim wants.
type pursuit func(ctx context.Context, c *claim) (*lease, error)

// once asks and does not wait.
func (m *manager) once(ctx context.Context, c *claim) (*lease, error) {
	if err := c.plan.refuseWaitLimit(); err != nil {
		return nil, err
	}
	defer func() {
		if c.unknown {
			m.abandon(c, nil)
		}
	}()
	l, err := m.ask(ctx, c)
	return l, m.ownHolder(err)
}

// ask makes one request for a claim. Trust in what it grants is counted from
// before the request goes out.
func (m *manager) ask(ctx context.Context, c *claim) (*lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	window := m.drift.window(c.plan.firstTTL)
	reqCtx, cancel := bounded(ctx, min(window, m.options.RequestTimeout))
	req := abstractions.AcquireRequest{Name: c.name, ID: c.id, Owner: m.options.Owner, TTL: c.plan.firstTTL, Metadata: c.plan.metadata}
	sent := m.clock.now()
	grant, err := request(reqCtx, m, &c.overdue, func(ctx context.Context) (abstractions.Grant, error) {
		return m.provider.Acquire(ctx, req)
	}, m.grantedTooLate(c))
	cut := cutOff(reqCtx, err)
	cancel()
	m.outage.note(ctx, m.clock.mono(), err)
	if err == nil {
		err = c.check(grant)
	}
	if err != nil {
		if cut || !abstractions.NotApplied(err) {
			c.unknown, c.lastSent = true, sent
		}
		return nil, err
	}
	var doubt instant
	if c.unknown {
		doubt = c.lastSent.add(c.plan.firstTTL)
	}
	c.unknown, c.lastSent = true, sent // ours, until a lease takes it over
	l, err := m.take(ctx, c, grant, sent, doubt)
	c.unknown = err != nil
	return l, err
}

// take makes a lease of the grant of a request that was sent at the given instant,
// unless it comes too late. Other requests for the claim may land until doubt.
func (m *manager) take(ctx context.Context, c *claim, grant abstractions.Grant, sent, doubt instant) (*lease, error) {
	now := m.clock.now()
	l := m.newLease(c, grant, sent)
	l.doubt = doubt
	switch {
	case l.until.left(now) <= 0:
		return nil, errGrantTooLate
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if err := l.begin(now); err != nil {
		return nil, err
	}
	return l, nil
}

// cutOff reports whether err is the cause of a context that has ended. Then it
// tells nothing of the request, whatever sentinel it matches: the context may
// be that of another lease, which was lost, or of a manager that is closed.
func cutOff(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
}

// check refuses a grant that is not what was asked for.
func (c *claim) check(g abstractions.Grant) error {
	if g.ID != c.id || g.Name != c.name || c.adopt != 0 && g.Token != c.adopt || g.Token <= 0 || g.Token > MaxToken || g.TTL <= 0 {
		return fmt.Errorf("%w: the provider granted %q, ID %s, token %d, TTL %v", ErrUnavailable, g.Name, g.ID, g.Token, g.TTL)
	}
	return nil
}

// abandon cleans up behind a claim that was given up with a request's outcome
// unknown. settled is called when the name has been released, or that failed.
func (m *manager) abandon(c *claim, settled func()) {
	c.abandoned.Store(true)
	m.cleanUp(&cleanup{name: c.name, id: c.id, until: c.lastSent.add(c.plan.firstTTL)}, settled)
}

// grantedTooLate takes the reply to a request that had not returned when its
// context ended: it may have been applied as late as now.
func (m *manager) grantedTooLate(c *claim) func(abstractions.Grant, error) {
	return func(_ abstractions.Grant, err error) {
		if !c.abandoned.Load() || err != nil && abstractions.NotApplied(err) {
			return
		}
		if m.lifetime.Err() != nil {
			_ = m.releaseOnce(background, &overdue{}, abstractions.ReleaseRequest{Name: c.name, ID: c.id}) // nobody is left to retry it
			return
		}
		m.cleanUp(&cleanup{name: c.name, id: c.id, until: m.clock.now().add(c.plan.firstTTL)}, nil)
	}
}

// ownHolder marks what stood in the way of an acquire if it is a lease of this
// manager. It looks for it among all leases, so only once, at the end.
func (m *manager) ownHolder(err error) error {
	switch err := err.(type) { //nolint:errorlint // the forms in which providers return it; others stay as they are
	case *HeldError:
		m.mu.Lock()
		defer m.mu.Unlock()
		if err.ByThisManager || err.Holder.Owner != m.options.Owner || !m.has(err.Holder.ID) {
			return err
		}
		own := *err
		own.ByThisManager = true
		return &own
	case *Error:
		own := *err
		own.Err = m.ownHolder(err.Err)
		return &own
	}
	return err
}

// gaveUp is the error of a wait that ended without the lease: why it ended,
// and what had stood in the way.
func gaveUp(end, last error) error {
	if last == nil || errors.Is(last, end) {
		return end
	}
	return fmt.Errorf("%w; the last answer was: %w", end, last)
}

func callerOf(ctx context.Context) *trace.SpanContext {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return nil
	}
	valid := sc // on the heap only here
	return &valid
}
