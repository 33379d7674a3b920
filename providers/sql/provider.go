package sqllease

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
)

// Provider is a leasing.Provider over a [Store]. Make one with Open or OpenURL.
// It is safe for concurrent use.
//
// Its optional abilities are leasing.BatchRenewer, leasing.Lister and
// leasing.Pinger; leasing.HistoryReader if Options.History is set; and
// leasing.Waiter on PostgreSQL through pgx, unless Options.NoWakeups is set.
type Provider struct {
	store   *Store
	wakeups *wakeups // nil if nobody can be woken
}

var (
	_ abstractions.Provider      = (*Provider)(nil)
	_ abstractions.BatchRenewer  = (*Provider)(nil)
	_ abstractions.Waiter        = (*Provider)(nil)
	_ abstractions.Lister        = (*Provider)(nil)
	_ abstractions.Pinger        = (*Provider)(nil)
	_ abstractions.HistoryReader = (*Provider)(nil)
)

// As answers for the optional abilities: see leasing.As.
func (p *Provider) As(target any) bool {
	switch ability := target.(type) {
	case *abstractions.BatchRenewer:
		*ability = p
	case *abstractions.Lister:
		*ability = p
	case *abstractions.Pinger:
		*ability = p
	case *abstractions.Waiter:
		if !p.wakeups.canListen() {
			return false
		}
		*ability = p
	case *abstractions.HistoryReader:
		if !p.store.record.changes {
			return false
		}
		*ability = p
	default:
		return false
	}
	return true
}

// Store is the low-level access to the same tables. It closes with the provider.
func (p *Provider) Store() *Store { return p.store }

// Capabilities returns what is documented at the package.
func (p *Provider) Capabilities() abstractions.Capabilities { return p.store.capabilities }

// Migrate creates the tables or brings them up to date: see Store.Migrate.
func (p *Provider) Migrate(ctx context.Context) error { return p.store.Migrate(ctx) }

// Sweep forgets names that are no longer used: see Store.Sweep.
func (p *Provider) Sweep(ctx context.Context) (Swept, error) { return p.store.Sweep(ctx) }

// Close closes the Store.
func (p *Provider) Close() error { return p.store.Close() }

// Acquire makes one attempt to take a name: see leasing.Provider.
func (p *Provider) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	claim, err := p.store.Acquire(ctx, req)
	return claim.grant(), err
}

// Renew extends a claim: see leasing.Provider and Store.Renew.
func (p *Provider) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	claim, err := p.store.Renew(ctx, req)
	return claim.grant(), err
}

// RenewBatch renews many claims: see leasing.BatchRenewer and Store.RenewBatch.
func (p *Provider) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	claims, err := p.store.RenewBatch(ctx, reqs)
	results := make([]abstractions.RenewResult, len(claims))
	for i, claim := range claims {
		results[i] = abstractions.RenewResult{Grant: claim.Claim.grant(), Err: claim.Err}
	}
	return results, err
}

// Release gives a claim up: see leasing.Provider.
func (p *Provider) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	_, err := p.store.Release(ctx, req)
	return err
}

// Break ends somebody's claim: see leasing.Provider.
func (p *Provider) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	broken, err := p.store.Break(ctx, req)
	return broken.BreakResult, err
}

// Inspect shows a record: see leasing.Provider.
func (p *Provider) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	return p.store.Inspect(ctx, req)
}

// List lists records: see leasing.Lister and Store.List.
func (p *Provider) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	return p.store.List(ctx, req)
}

// History tells what happened to a name: see leasing.HistoryReader and Store.History.
func (p *Provider) History(ctx context.Context, req abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
	return p.store.History(ctx, req)
}

// Ping asks whether the database answers: see leasing.Pinger.
func (p *Provider) Ping(ctx context.Context) error { return p.store.Ping(ctx) }

func (c Claim) grant() abstractions.Grant {
	return abstractions.Grant{Name: c.Name, ID: c.ID, Token: c.Token, TTL: c.TTL}
}
