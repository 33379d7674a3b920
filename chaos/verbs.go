package chaos

import (
	"context"
	"maps"
	"slices"

	"github.com/distributedleasing/leasing/abstractions"
)

// nothing is the request or answer type of verbs without a request or answer.
type nothing struct{}

// Acquire is the wrapped provider's, with the plan's faults.
func (p *Provider) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	if p.inactive.Load() {
		p.register(req)
	}
	o := operation{op: OpAcquire, name: req.Name, id: req.ID, owner: req.Owner}
	return call(ctx, p, p.inner, o, req, abstractions.Provider.Acquire)
}

// register remembers the owner of a claim, for rules that are enabled later.
func (p *Provider) register(req abstractions.AcquireRequest) {
	if len(p.plan.Rules) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owners.put(req.ID, req.Owner)
}

// Renew is the wrapped provider's, with the plan's faults.
func (p *Provider) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	return call(ctx, p, p.inner, renewal(req), req, abstractions.Provider.Renew)
}

func renewal(req abstractions.RenewRequest) operation {
	return operation{op: OpRenew, name: req.Name, id: req.ID}
}

// Release is the wrapped provider's, with the plan's faults.
func (p *Provider) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	release := func(inner abstractions.Provider, ctx context.Context, req abstractions.ReleaseRequest) (nothing, error) {
		return nothing{}, inner.Release(ctx, req)
	}
	_, err := call(ctx, p, p.inner, operation{op: OpRelease, name: req.Name, id: req.ID}, req, release)
	return err
}

// Break is the wrapped provider's, with the plan's faults.
func (p *Provider) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	return call(ctx, p, p.inner, operation{op: OpBreak, name: req.Name}, req, abstractions.Provider.Break)
}

// Inspect is the wrapped provider's, with the plan's faults.
func (p *Provider) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	return call(ctx, p, p.inner, operation{op: OpInspect, name: req.Name}, req, abstractions.Provider.Inspect)
}

// Waiters is the wrapped provider's, with the plan's faults.
func (p *Provider) Waiters(ctx context.Context, req abstractions.WaitersRequest) ([]abstractions.Waiting, error) {
	return call(ctx, p, p.queue, operation{op: OpWaiters, name: req.Name}, req, abstractions.WaiterLister.Waiters)
}

// List is the wrapped provider's, with the plan's faults.
func (p *Provider) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	return call(ctx, p, p.lister, operation{op: OpList}, req, abstractions.Lister.List)
}

// History is the wrapped provider's, with the plan's faults.
func (p *Provider) History(ctx context.Context, req abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
	return call(ctx, p, p.historian, operation{op: OpHistory, name: req.Name}, req, abstractions.HistoryReader.History)
}

// Ping is the wrapped provider's, with the plan's faults.
func (p *Provider) Ping(ctx context.Context) error {
	ping := func(inner abstractions.Pinger, ctx context.Context, _ nothing) (nothing, error) {
		return nothing{}, inner.Ping(ctx)
	}
	_, err := call(ctx, p, p.pinger, operation{op: OpPing}, nothing{}, ping)
	return err
}

// verb sends a request to the wrapped provider, or to one of its abilities.
type verb[P, Q, R any] func(inner P, ctx context.Context, req Q) (R, error)

// call sends a request. While no fault may happen it allocates nothing: the closures are in the
// second part.
func call[P, Q, R any](ctx context.Context, p *Provider, inner P, o operation, req Q, send verb[P, Q, R]) (R, error) {
	var none R
	switch {
	case p.closed.Load():
		return none, abstractions.ErrClosed
	case any(inner) == nil:
		return none, p.wrap(o, abstractions.ErrUnsupported)
	case p.inactive.Load():
		return send(inner, ctx, req)
	}
	return callUnderPlan(ctx, p, inner, o, req, send)
}

func callUnderPlan[P, Q, R any](ctx context.Context, p *Provider, inner P, o operation, req Q, send verb[P, Q, R]) (R, error) {
	if !p.isValid(req) { // the wrapped provider refuses it, and no fault hides the refusal
		return send(inner, ctx, req)
	}
	if slices.Contains(reads, o.op) {
		o.owner, o.read = p.options.Owner, req
	}
	req = own(req) // it may be sent after the call has returned
	answer, err := intercept(ctx, p, o, func(ctx context.Context) (R, error) {
		answer, err := send(inner, ctx, req)
		if err == nil && o.read != nil {
			p.remember(o, own(answer))
		}
		return answer, err
	})
	return own(answer), err
}

func (p *Provider) isValid(req any) bool {
	if history, ok := req.(abstractions.HistoryRequest); ok {
		req = abstractions.InspectRequest{Name: history.Name}
	}
	checked, ok := req.(interface {
		Validate(abstractions.Capabilities) error
	})
	return !ok || checked.Validate(p.caps) == nil
}

// own copies the shared parts of a request or an answer: the caller may change them, and a fault
// may use them later.
func own[T any](t T) T {
	var copied any = t
	switch v := copied.(type) {
	case abstractions.AcquireRequest:
		v.Metadata = maps.Clone(v.Metadata)
		copied = v
	case abstractions.Record:
		v.Metadata = maps.Clone(v.Metadata)
		copied = v
	case abstractions.ListResult:
		v.Records = slices.Clone(v.Records)
		for i := range v.Records {
			v.Records[i] = own(v.Records[i])
		}
		copied = v
	case []abstractions.Waiting:
		copied = slices.Clone(v)
	case abstractions.HistoryResult:
		v.Entries = slices.Clone(v.Entries)
		copied = v
	}
	return copied.(T)
}
