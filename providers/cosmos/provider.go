package cosmoslease

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Provider is a leasing.Provider over Azure Cosmos DB. Make one with Open or
// OpenURL. It is safe for concurrent use.
//
// Its optional abilities are leasing.Lister and leasing.Pinger.
type Provider struct {
	connection *connection
	end        context.CancelFunc // of the wire's lifetime
	watch      watch
	tokens     tokens
	expiry     expiry
	retention  time.Duration // 0 for ever
	caps       abstractions.Capabilities
	timeout    time.Duration
	closed     atomic.Bool
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
	return call(ctx, p, func(ctx context.Context, t *items) (abstractions.Grant, error) { return p.acquire(ctx, t, req) })
}

// Renew extends a claim: see leasing.Provider. A claim that has run out lives on if
// its document has not been written since.
func (p *Provider) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	if err := req.Validate(p.caps); err != nil {
		return abstractions.Grant{}, err
	}
	return call(ctx, p, func(ctx context.Context, t *items) (abstractions.Grant, error) { return p.renew(ctx, t, req) })
}

// Release gives a claim up: see leasing.Provider.
func (p *Provider) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	if err := req.Validate(p.caps); err != nil {
		return err
	}
	_, err := call(ctx, p, func(ctx context.Context, t *items) (none struct{}, err error) { return none, p.release(ctx, t, req) })
	return err
}

// Break ends somebody's claim: see leasing.Provider.
func (p *Provider) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	if err := req.Validate(p.caps); err != nil {
		return abstractions.BreakResult{}, err
	}
	return call(ctx, p, func(ctx context.Context, t *items) (abstractions.BreakResult, error) {
		return p.breakLease(ctx, t, req)
	})
}

// Inspect shows a record: see leasing.Provider. It makes one request.
func (p *Provider) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	if err := req.Validate(p.caps); err != nil {
		return abstractions.Record{}, err
	}
	return call(ctx, p, func(ctx context.Context, t *items) (abstractions.Record, error) {
		s, err := t.read(ctx, req.Name)
		if err != nil {
			return abstractions.Record{}, err
		}
		return p.expiry.record(req.Name, s), nil
	})
}

// List lists records by a query: see leasing.Lister.
func (p *Provider) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	return call(ctx, p, func(ctx context.Context, t *items) (abstractions.ListResult, error) { return p.list(ctx, t, req) })
}

// Ping reads a document that does not exist: see leasing.Pinger. It costs a request
// unit.
func (p *Provider) Ping(ctx context.Context) error {
	_, err := call(ctx, p, func(ctx context.Context, t *items) (none struct{}, err error) { return none, t.ping(ctx) })
	return err
}

// Close ends requests that are under way, whose outcome is unknown then, and waits
// for them. Leases are not released. A credential or transport of the user's stays
// as it is.
func (p *Provider) Close() error {
	if p.closed.Swap(true) {
		return nil
	}
	p.end()
	p.connection.close()
	return nil
}

// call makes a call, once the container is known. It ends when ctx does: azcosmos
// may not, while it reads the account or waits for a token that another call has
// asked for. What goes on then has a context that has ended, and sends nothing
// more.
func call[T any](ctx context.Context, p *Provider, do func(ctx context.Context, t *items) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	switch {
	case p.closed.Load():
		return none, abstractions.ErrClosed
	case ctx.Err() != nil:
		return none, interrupted(ctx)
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	done := make(chan answer, 1)
	err := p.connection.beside(func() {
		value, err := attempt(ctx, p, do)
		done <- answer{value, err}
	})
	if err != nil {
		return none, err
	}
	select {
	case a := <-done:
		if a.err != nil && ctx.Err() != nil && errors.Is(a.err, ctx.Err()) {
			return none, interrupted(ctx)
		}
		return a.value, p.ended(a.err)
	case <-ctx.Done():
		return none, interrupted(ctx)
	}
}

// bounded bounds a call whose context has no deadline.
func (p *Provider) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, p.timeout)
}

// ended says that a call which Close has interrupted has an unknown outcome.
func (p *Provider) ended(err error) error {
	if errors.Is(err, context.Canceled) && p.closed.Load() {
		return fmt.Errorf("%w: the provider was closed meanwhile", abstractions.ErrUnavailable)
	}
	return failure(err)
}

// attempt tries once more where there was no container any more, if one may be
// created.
func attempt[T any](ctx context.Context, p *Provider, do func(ctx context.Context, t *items) (T, error)) (T, error) {
	var none T
	t, err := p.connection.items(ctx)
	if err != nil {
		return none, err
	}
	value, err := do(ctx, t)
	if !errors.Is(err, errNoContainer) {
		return value, err
	}
	p.connection.forget(t)
	if !p.connection.options.Create {
		return none, p.connection.options.setup("it is not there any more", err)
	}
	if t, err = p.connection.items(ctx); err != nil {
		return none, err
	}
	if value, err = do(ctx, t); errors.Is(err, errNoContainer) {
		// The service may take a moment to know of a new container.
		return none, fmt.Errorf("%w: the container was created and is not seen yet", abstractions.ErrUnavailable)
	}
	return value, err
}

// String shows what is no secret.
func (p *Provider) String() string {
	o := p.connection.options
	return fmt.Sprintf("cosmoslease.Provider{%s, Database: %q, Container: %q}", hostOf(o.Endpoint), o.Database, o.Container)
}

// GoString is String.
func (p *Provider) GoString() string { return p.String() }
