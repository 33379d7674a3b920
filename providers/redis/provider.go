package redislease

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Provider is a leasing.Provider over Redis. Make one with Open or OpenURL. It
// is safe for concurrent use.
//
// Its optional abilities are leasing.BatchRenewer, leasing.Waiter,
// leasing.Lister and leasing.Pinger.
type Provider struct {
	topology topology
	caps     abstractions.Capabilities
	timeout  time.Duration
	owned    []func() error // closes the clients that Open made
	closed   atomic.Bool
}

var (
	_ abstractions.Provider     = (*Provider)(nil)
	_ abstractions.BatchRenewer = (*Provider)(nil)
	_ abstractions.Waiter       = (*Provider)(nil)
	_ abstractions.Lister       = (*Provider)(nil)
	_ abstractions.Pinger       = (*Provider)(nil)
)

// topology is one node that decides, or several that vote. Requests have been
// validated, contexts have a deadline.
type topology interface {
	acquire(ctx context.Context, req abstractions.AcquireRequest, c claim) (abstractions.Grant, error)
	renew(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error)
	release(ctx context.Context, req abstractions.ReleaseRequest) error
	breakLease(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error)
	inspect(ctx context.Context, name string) (abstractions.Record, error)
	list(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error)
	wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error)
	ping(ctx context.Context) error
	close()
}

// Capabilities returns what is documented at the package.
func (p *Provider) Capabilities() abstractions.Capabilities { return p.caps }

// Acquire makes one attempt to take a name: see leasing.Provider.
func (p *Provider) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	if err := req.Validate(p.caps); err != nil {
		return abstractions.Grant{}, err
	}
	ctx, cancel, err := p.begin(ctx)
	if err != nil {
		return abstractions.Grant{}, err
	}
	defer cancel()
	return p.topology.acquire(ctx, req, newClaim(req))
}

// Renew extends a claim: see leasing.Provider. A claim that has run out is lost.
func (p *Provider) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	results, err := p.RenewBatch(ctx, []abstractions.RenewRequest{req})
	if err != nil {
		return abstractions.Grant{}, err
	}
	return results[0].Grant, results[0].Err
}

// RenewBatch renews many claims: see leasing.BatchRenewer.
func (p *Provider) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	for _, req := range reqs {
		if err := req.Validate(p.caps); err != nil {
			return p.renewValid(ctx, reqs)
		}
	}
	ctx, cancel, err := p.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return p.topology.renew(ctx, reqs)
}

// renewValid renews those of a batch that can be.
func (p *Provider) renewValid(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	results := make([]abstractions.RenewResult, len(reqs))
	var valid []abstractions.RenewRequest
	var at []int
	for i, req := range reqs {
		if results[i].Err = req.Validate(p.caps); results[i].Err == nil {
			valid, at = append(valid, req), append(at, i)
		}
	}
	if len(valid) == 0 {
		return results, nil
	}
	renewed, err := p.RenewBatch(ctx, valid)
	for i, result := range renewed {
		results[at[i]] = result
	}
	for _, i := range at {
		if err != nil && results[i] == (abstractions.RenewResult{}) {
			results[i].Err = err
		}
	}
	return results, nil
}

// Release gives a claim up: see leasing.Provider.
func (p *Provider) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	if err := req.Validate(p.caps); err != nil {
		return err
	}
	ctx, cancel, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	return p.topology.release(ctx, req)
}

// Break ends somebody's claim: see leasing.Provider.
func (p *Provider) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	if err := req.Validate(p.caps); err != nil {
		return abstractions.BreakResult{}, err
	}
	ctx, cancel, err := p.begin(ctx)
	if err != nil {
		return abstractions.BreakResult{}, err
	}
	defer cancel()
	return p.topology.breakLease(ctx, req)
}

// Inspect shows a record: see leasing.Provider.
func (p *Provider) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	if err := req.Validate(p.caps); err != nil {
		return abstractions.Record{}, err
	}
	ctx, cancel, err := p.begin(ctx)
	if err != nil {
		return abstractions.Record{}, err
	}
	defer cancel()
	return p.topology.inspect(ctx, req.Name)
}

// List lists records by SCAN: see leasing.Lister. Redis may tell a name twice
// if it shrinks its table between two pages
// (redis.io/docs/latest/commands/scan, "Scan guarantees").
func (p *Provider) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	ctx, cancel, err := p.begin(ctx)
	if err != nil {
		return abstractions.ListResult{}, err
	}
	defer cancel()
	return p.topology.list(ctx, req)
}

// Wait registers a waiter: see leasing.Waiter.
func (p *Provider) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	if err := req.Validate(p.caps); err != nil {
		return abstractions.Wakeups{}, err
	}
	if p.closed.Load() {
		return abstractions.Wakeups{}, abstractions.ErrClosed
	}
	if ctx.Err() != nil {
		return abstractions.Wakeups{}, failure(ctx.Err())
	}
	return p.topology.wait(ctx, req)
}

// Ping asks whether Redis answers, or a majority of Redlock's nodes does: see
// leasing.Pinger.
func (p *Provider) Ping(ctx context.Context) error {
	ctx, cancel, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	return p.topology.ping(ctx)
}

// Close ends the subscription that waiters share, waits for requests that are
// under way, and closes the client if Open made it. Leases are not released.
func (p *Provider) Close() error {
	if p.closed.Swap(true) {
		return nil
	}
	p.topology.close()
	var first error
	for _, closeClient := range p.owned {
		if err := closeClient(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// begin bounds a request whose context has no deadline.
func (p *Provider) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	switch {
	case p.closed.Load():
		return nil, nil, abstractions.ErrClosed
	case ctx.Err() != nil:
		return nil, nil, failure(ctx.Err())
	}
	if _, bounded := ctx.Deadline(); bounded {
		return ctx, func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	return ctx, cancel, nil
}
