package chaos

import (
	"context"
	"maps"
	"slices"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Acquire calls the wrapped provider, with the plan's faults.
func (p *Provider) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	if p.inactive.Load() {
		p.register(req)
	}
	return p.intercepted.Acquire(ctx, req)
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

func renewal(req abstractions.RenewRequest) operation {
	return operation{op: OpRenew, name: req.Name, id: req.ID}
}

// bypasses reports whether a call goes directly to the wrapped provider. A Wait goes through p if the plan has partitions,
// since a partition may begin while the registration lasts.
func (p *Provider) bypasses(method providerkit.Method) bool {
	return p.inactive.Load() && !p.closed.Load() && (method != providerkit.MethodWait || !p.partitions)
}

// handle makes a call with the faults of the plan.
func (p *Provider) handle(ctx context.Context, x *providerkit.Exchange) (any, error) {
	if p.closed.Load() {
		return nil, abstractions.ErrClosed
	}
	o := operation{op: Op(x.Method), name: x.Name, id: x.ID}
	switch req := x.Request.(type) {
	case []abstractions.RenewRequest:
		return p.renewBatch(ctx, o, req, x.Send)
	case abstractions.WaitRequest:
		return p.wait(ctx, o, req, x.Send)
	case abstractions.AcquireRequest:
		o.owner = req.Owner
	}
	if !p.isValid(x.Request) { // the wrapped provider refuses it, and no fault hides the refusal
		return x.Send(ctx, x.Request)
	}
	if slices.Contains(readOps, o.op) {
		o.owner, o.read = p.options.Owner, x.Request
	}
	req := copyShared(x.Request) // the request may be sent after the call has returned
	answer, err := p.perform(ctx, o, func(ctx context.Context) (any, error) {
		answer, err := x.Send(ctx, req)
		if err == nil && o.read != nil {
			p.remember(o, copyShared(answer))
		}
		return answer, err
	})
	return copyShared(answer), err
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

// copyShared copies the shared parts of a request or an answer: the caller may change them, and a fault
// may use them later.
func copyShared(shared any) any {
	switch v := shared.(type) {
	case abstractions.AcquireRequest:
		v.Metadata = maps.Clone(v.Metadata)
		return v
	case abstractions.Record:
		v.Metadata = maps.Clone(v.Metadata)
		return v
	case abstractions.ListResult:
		v.Records = slices.Clone(v.Records)
		for i := range v.Records {
			v.Records[i].Metadata = maps.Clone(v.Records[i].Metadata)
		}
		return v
	case []abstractions.Waiting:
		return slices.Clone(v)
	case abstractions.HistoryResult:
		v.Entries = slices.Clone(v.Entries)
		return v
	}
	return shared
}
