package chaos

import (
	"context"
	"maps"

	"github.com/distributedleasing/leasing/abstractions"
)

// The methods below are in two parts, so that what the second allocates costs
// nothing while no fault is to happen. A request that can't work is the wrapped
// provider's to refuse: no fault hides that.

// nothing is the answer of verbs that have none.
type nothing struct{}

// state reports whether the wrapper is closed, and whether nothing is to happen.
func (p *Provider) state() (quiet bool, err error) {
	if p.closed.Load() {
		return true, abstractions.ErrClosed
	}
	return p.quiet.Load(), nil
}

// Acquire is the wrapped provider's, with the plan's faults.
func (p *Provider) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	quiet, err := p.state()
	switch {
	case err != nil:
		return abstractions.Grant{}, err
	case quiet:
		p.introduce(req)
		return p.inner.Acquire(ctx, req)
	}
	return p.acquire(ctx, req)
}

// introduce remembers whose claim it is, for rules that are enabled later.
func (p *Provider) introduce(req abstractions.AcquireRequest) {
	if len(p.plan.Rules) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owners.put(req.ID, req.Owner)
}

func (p *Provider) acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	if req.Validate(p.caps) != nil {
		return p.inner.Acquire(ctx, req)
	}
	req.Metadata = maps.Clone(req.Metadata) // it may be sent when the caller has it back
	o := operation{op: OpAcquire, name: req.Name, id: req.ID, owner: req.Owner}
	return through(ctx, p, o, func(ctx context.Context) (abstractions.Grant, error) { return p.inner.Acquire(ctx, req) })
}

// Renew is the wrapped provider's, with the plan's faults.
func (p *Provider) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	quiet, err := p.state()
	switch {
	case err != nil:
		return abstractions.Grant{}, err
	case quiet:
		return p.inner.Renew(ctx, req)
	}
	return p.renew(ctx, req)
}

func (p *Provider) renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	if req.Validate(p.caps) != nil {
		return p.inner.Renew(ctx, req)
	}
	return through(ctx, p, renewal(req), func(ctx context.Context) (abstractions.Grant, error) { return p.inner.Renew(ctx, req) })
}

func renewal(req abstractions.RenewRequest) operation {
	return operation{op: OpRenew, name: req.Name, id: req.ID}
}

// Release is the wrapped provider's, with the plan's faults.
func (p *Provider) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	quiet, err := p.state()
	switch {
	case err != nil:
		return err
	case quiet:
		return p.inner.Release(ctx, req)
	}
	return p.release(ctx, req)
}

func (p *Provider) release(ctx context.Context, req abstractions.ReleaseRequest) error {
	if req.Validate(p.caps) != nil {
		return p.inner.Release(ctx, req)
	}
	o := operation{op: OpRelease, name: req.Name, id: req.ID}
	_, err := through(ctx, p, o, func(ctx context.Context) (nothing, error) { return nothing{}, p.inner.Release(ctx, req) })
	return err
}

// Break is the wrapped provider's, with the plan's faults.
func (p *Provider) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	quiet, err := p.state()
	switch {
	case err != nil:
		return abstractions.BreakResult{}, err
	case quiet:
		return p.inner.Break(ctx, req)
	}
	return p.breaks(ctx, req)
}

func (p *Provider) breaks(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	if req.Validate(p.caps) != nil {
		return p.inner.Break(ctx, req)
	}
	o := operation{op: OpBreak, name: req.Name}
	return through(ctx, p, o, func(ctx context.Context) (abstractions.BreakResult, error) { return p.inner.Break(ctx, req) })
}
