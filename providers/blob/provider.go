package bloblease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Provider is a leasing.Provider over Azure Blob Storage. Make one with Open or
// OpenURL. It is safe for concurrent use.
//
// Its optional abilities are leasing.Lister and leasing.Pinger. The service has no
// batches of lease operations, and pushes nothing: renewals are sent one by one,
// and waiters poll.
type Provider struct {
	store           store
	caps            abstractions.Capabilities
	timeout         time.Duration
	retention       time.Duration
	createContainer bool
	idle            func() // closes the connections that Open made
	tokens          tokens

	lifetime context.Context // of requests; Close ends it
	end      context.CancelFunc
	mu       sync.Mutex
	closed   bool
	calls    sync.WaitGroup // begun under mu while not closed
}

var (
	_ abstractions.Provider = (*Provider)(nil)
	_ abstractions.Lister   = (*Provider)(nil)
	_ abstractions.Pinger   = (*Provider)(nil)
)

// Capabilities returns what is documented at the package.
func (p *Provider) Capabilities() abstractions.Capabilities { return p.caps }

// Acquire makes one attempt to take a name: see leasing.Provider.
func (p *Provider) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	if err := req.Validate(p.caps); err != nil {
		return abstractions.Grant{}, err
	}
	req.Metadata = maps.Clone(req.Metadata) // a call may end before what it has begun does
	return call(ctx, p, func(ctx context.Context) (abstractions.Grant, error) { return p.acquire(ctx, req) })
}

// Renew extends a claim: see leasing.Provider. One that has run out is revived if
// nobody has asked for the name since.
func (p *Provider) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	if err := req.Validate(p.caps); err != nil {
		return abstractions.Grant{}, err
	}
	return call(ctx, p, func(ctx context.Context) (abstractions.Grant, error) { return p.renew(ctx, req) })
}

// Release gives a claim up: see leasing.Provider.
func (p *Provider) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	if err := req.Validate(p.caps); err != nil {
		return err
	}
	_, err := call(ctx, p, func(ctx context.Context) (none struct{}, err error) { return none, p.release(ctx, req) })
	return err
}

// Break ends somebody's claim: see leasing.Provider. Grace is at most 60 s, the
// longest break period of the service, and is rounded up to seconds. Where another
// program has the lease, or the record was overwritten, a Break without a token ends
// that lease, and no other.
func (p *Provider) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	err := req.Validate(p.caps)
	if err == nil && req.Grace > maxTTL {
		err = &abstractions.InvalidError{Field: "Grace", Value: req.Grace, Want: "at most 60s, the longest break period of the Blob service"}
	}
	if err != nil {
		return abstractions.BreakResult{}, err
	}
	return call(ctx, p, func(ctx context.Context) (abstractions.BreakResult, error) { return p.breakLease(ctx, req) })
}

// Inspect shows a record: see leasing.Provider.
func (p *Provider) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	if err := req.Validate(p.caps); err != nil {
		return abstractions.Record{}, err
	}
	return call(ctx, p, func(ctx context.Context) (abstractions.Record, error) { return p.inspect(ctx, req.Name) })
}

// List lists records, in the order of their blobs' names: see leasing.Lister.
func (p *Provider) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	return call(ctx, p, func(ctx context.Context) (abstractions.ListResult, error) { return p.list(ctx, req) })
}

// Ping asks whether the service answers, knows the container and lets us read:
// see leasing.Pinger.
func (p *Provider) Ping(ctx context.Context) error {
	_, err := call(ctx, p, func(ctx context.Context) (none struct{}, err error) { return none, p.ping(ctx) })
	return err
}

// Close ends calls that are under way, whose outcome is unknown then, waits for them,
// and closes idle connections unless they are those of
// Options.ClientOptions.Transport. Leases are not released.
func (p *Provider) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.end()
	p.calls.Wait()
	p.idle()
	return nil
}

// outward is an error as callers see it.
func (p *Provider) outward(err error) error {
	if homeless, ok := isHomeless(err); ok && p.createContainer {
		return &abstractions.ThrottledError{Err: homeless.statusError} // the next acquire creates it, once it is gone
	}
	var moved *movedError
	if errors.As(err, &moved) { // an answer to a request that has no condition
		return fmt.Errorf("%w: %w", abstractions.ErrUnavailable, moved.statusError)
	}
	return err
}

// attempts bounds how often a call begins again because the record has changed
// between its look and its write. Each time somebody else has got further.
const attempts = 5

// errContended says that a call gave up because others were quicker each time.
var errContended = errors.New("others have changed the record each time between reading and writing it")
