package redislease

import (
	"context"
	"errors"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/node"
	"github.com/distributedleasing/leasing/providers/redis/internal/redlock"
	"github.com/redis/go-redis/v9"
)

type shell = providerkit.Provider

// Provider is a leasing.Provider over Redis. Make one with Open or OpenURL. It
// is safe for concurrent use.
//
// Its optional abilities (see package abstractions) are BatchRenewer, Waiter, WaiterLister (but not with Redlock),
// Lister and Pinger. A listing uses SCAN, and may list a name twice, for example if Redis shrinks its hash table between two pages
// (redis.io/docs/latest/commands/scan, "Scan guarantees"). On a Cluster it leaves out a name that moves during the
// listing to a server already scanned: see docs/providers/redis.md.
//
// Close ends the subscription that waiters share, waits for requests in flight, and
// closes a client that Open made. Leases are not released.
type Provider struct {
	*shell
	topology topology
}

// Bootstrap lets the new servers of a Redlock vote at once instead of after [Options].MaxTTL.
// By this call an operator asserts that no lease is alive on these servers. Call it once,
// when the servers are new, and not at each start of a program: the servers may have lost
// their data just before.
//
// All servers must answer. If all servers vote already, Bootstrap does nothing; if only
// some do, Bootstrap is refused. In other modes the error matches leasing.ErrInvalid.
func (p *Provider) Bootstrap(ctx context.Context) error {
	r, ok := p.topology.(*redlock.Redlock)
	if !ok {
		return &abstractions.InvalidError{Field: "Options.Mode", Value: p.Capabilities().Provider, Want: "redlock: others need no bootstrap"}
	}
	return providerkit.Call(ctx, p.shell, "bootstrap", "", r.Bootstrap)
}

// topology is one node that decides, or several that vote. Its requests are
// validated, and its contexts have a deadline, except those of Wait.
type topology interface {
	Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error)
	Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error)
	Release(ctx context.Context, req abstractions.ReleaseRequest) error
	Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error)
	Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error)
	abstractions.BatchRenewer
	abstractions.Lister
	abstractions.Waiter
	abstractions.Pinger
	Close()
}

// driver adapts a topology to the kit's Provider.
type driver struct {
	topology
	caps  abstractions.Capabilities
	owned []redis.UniversalClient // clients that Open made
}

func (d *driver) Capabilities() abstractions.Capabilities { return d.caps }

// waitListDriver is the driver of a topology in which one node has the whole wait list of a name.
type waitListDriver struct {
	*driver
	node *node.Single
}

func (q waitListDriver) Waiters(ctx context.Context, req abstractions.WaitersRequest) ([]abstractions.Waiting, error) {
	return q.node.Waiting(ctx, req.Name)
}

// Classify interprets those errors from the client library that the nodes have not
// classified.
func (d *driver) Classify(err error) providerkit.Meaning { return failure.Classify(err) }

func (d *driver) Close() error {
	d.topology.Close()
	var errs []error
	for _, client := range d.owned {
		errs = append(errs, client.Close())
	}
	return errors.Join(errs...)
}
