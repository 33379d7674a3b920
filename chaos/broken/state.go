package broken

import (
	"context"
	"sync"

	"github.com/distributedleasing/leasing/abstractions"
)

// versioned changes a claim's version with each renewal, as an ETag does, and
// takes a renewal with an earlier one for somebody else's: so it does with the
// renewal after one whose reply was lost.
type versioned struct {
	plain
	mu      sync.Mutex
	version map[string]int // by claim
}

// version is the state of a versioned grant.
type version struct {
	number int
	inner  any
}

func newVersioned(p abstractions.Provider) abstractions.Provider {
	return &versioned{plain: plain{p}, version: map[string]int{}}
}

func (p *versioned) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	grant, err := p.Provider.Acquire(ctx, req)
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		grant.State = version{p.version[req.ID], grant.State}
	}
	return grant, err
}

func (p *versioned) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	has, _ := req.State.(version)
	req.State = has.inner
	p.mu.Lock()
	defer p.mu.Unlock()
	if has.number != p.version[req.ID] {
		return abstractions.Grant{}, &abstractions.LostError{Reason: abstractions.LostTaken}
	}
	grant, err := p.Provider.Renew(ctx, req)
	if err == nil {
		p.version[req.ID]++
		grant.State = version{p.version[req.ID], grant.State}
	}
	return grant, err
}

func (p *versioned) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	if has, ok := req.State.(version); ok {
		req.State = has.inner
	}
	return p.Provider.Release(ctx, req)
}

// forgetful numbers the leases of a name by itself and forgets the number when
// one is released: the next begins at 1 again.
type forgetful struct {
	plain
	mu    sync.Mutex
	names map[string]*numbered
}

// numbered is the latest lease of a name, with its token as it is shown and as
// the backend knows it.
type numbered struct {
	id          string
	shown, real int64
}

func newForgetful(p abstractions.Provider) abstractions.Provider {
	return &forgetful{plain: plain{p}, names: map[string]*numbered{}}
}

func (p *forgetful) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	grant, err := p.Provider.Acquire(ctx, req)
	if err != nil {
		return grant, err
	}
	n, ok := p.names[req.Name]
	if !ok {
		n = new(numbered)
		p.names[req.Name] = n
	}
	if n.id != req.ID {
		*n = numbered{id: req.ID, shown: n.shown + 1, real: grant.Token}
	}
	grant.Token = n.shown
	return grant, nil
}

// real returns the token that the backend knows the latest lease by.
func (p *forgetful) real(name string, shown int64) int64 {
	if n, ok := p.names[name]; ok && n.shown == shown {
		return n.real
	}
	return shown
}

func (p *forgetful) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	shown := req.Token
	req.Token = p.real(req.Name, shown)
	grant, err := p.Provider.Renew(ctx, req)
	if err == nil {
		grant.Token = shown
	}
	return grant, err
}

func (p *forgetful) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	req.Token = p.real(req.Name, req.Token)
	err := p.Provider.Release(ctx, req)
	if n, ok := p.names[req.Name]; ok && err == nil && n.id == req.ID {
		delete(p.names, req.Name)
	}
	return err
}

func (p *forgetful) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	req.IfToken = p.real(req.Name, req.IfToken)
	result, err := p.Provider.Break(ctx, req)
	if n, ok := p.names[req.Name]; ok && err == nil {
		result.Token = n.shown
	}
	return result, err
}

func (p *forgetful) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	record, err := p.Provider.Inspect(ctx, req)
	if n, ok := p.names[req.Name]; ok && err == nil {
		record.Token = n.shown
	}
	return record, err
}
