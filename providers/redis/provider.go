package redislease

import (
	"context"
	"errors"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

type shell = providerkit.Provider

// Provider is a leasing.Provider over Redis. Make one with Open or OpenURL. It
// is safe for concurrent use.
//
// Its optional abilities are leasing.BatchRenewer, leasing.Waiter,
// leasing.Lister and leasing.Pinger. A listing is by SCAN, and tells a name twice if
// Redis shrinks its table between two pages
// (redis.io/docs/latest/commands/scan, "Scan guarantees").
//
// Close ends the subscription that waiters share, waits for requests that are
// under way, and closes the client if Open made it. Leases are not released.
type Provider struct {
	*shell
	topology topology
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

// driver is what the kit's Provider needs of a topology.
type driver struct {
	topology topology
	caps     abstractions.Capabilities
	owned    []func() error // closes the clients that Open made
}

func (d *driver) Capabilities() abstractions.Capabilities { return d.caps }

func (d *driver) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	return d.topology.acquire(ctx, req, newClaim(req))
}

func (d *driver) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	results, err := d.topology.renew(ctx, []abstractions.RenewRequest{req})
	if err != nil {
		return abstractions.Grant{}, err
	}
	return results[0].Grant, results[0].Err
}

func (d *driver) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	return d.topology.renew(ctx, reqs)
}

func (d *driver) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	return d.topology.release(ctx, req)
}

func (d *driver) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	return d.topology.breakLease(ctx, req)
}

func (d *driver) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	return d.topology.inspect(ctx, req.Name)
}

func (d *driver) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	return d.topology.list(ctx, req)
}

func (d *driver) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	return d.topology.wait(ctx, req)
}

func (d *driver) Ping(ctx context.Context) error { return d.topology.ping(ctx) }

func (d *driver) Close() error {
	d.topology.close()
	var errs []error
	for _, closeClient := range d.owned {
		errs = append(errs, closeClient())
	}
	return errors.Join(errs...)
}
