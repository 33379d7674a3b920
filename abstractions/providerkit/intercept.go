package providerkit

import (
	"context"
	"errors"

	"github.com/distributedleasing/leasing/abstractions"
)

// Exchange is one call of a provider, on its way through Intercept.
type Exchange struct {
	Method  string // "Acquire", "RenewBatch"
	Request any    // a pointer, as *abstractions.AcquireRequest: the changed value is sent. It is empty for a Ping.
	Reply   any    // a pointer: the changed value is returned. It is empty for a Release and a Ping.
	// Send makes the call, and stores the reply. Each use is one more request.
	Send func(ctx context.Context) error
}

// Intercepted is a provider whose calls pass a function: see Intercept. Capabilities and Close are the provider's own.
type Intercepted struct {
	abstractions.Provider
	handle func(ctx context.Context, x *Exchange) error
}

// Intercept returns a provider with the abilities of p, whose calls, also those of abilities, return the error of handle. An error
// other than that of Exchange.Send loses the reply. handle may be called concurrently.
func Intercept(p abstractions.Provider, handle func(ctx context.Context, x *Exchange) error) *Intercepted {
	return &Intercepted{p, handle}
}

// nothing is the request of a call without one, and the reply.
type nothing struct{}

func intercept[Q, R any](ctx context.Context, p *Intercepted, method string, req Q, send func(context.Context, Q) (R, error)) (reply R, err error) {
	var sent error
	err = p.handle(ctx, &Exchange{method, &req, &reply, func(ctx context.Context) error {
		reply, sent = send(ctx, req)
		return sent
	}})
	if err != nil && !errors.Is(err, sent) {
		reply = *new(R)
	}
	return reply, err
}

func (p *Intercepted) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	return intercept(ctx, p, "Acquire", req, p.Provider.Acquire)
}

func (p *Intercepted) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	return intercept(ctx, p, "Renew", req, p.Provider.Renew)
}

func (p *Intercepted) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	_, err := intercept(ctx, p, "Release", req, func(ctx context.Context, req abstractions.ReleaseRequest) (nothing, error) {
		return nothing{}, p.Provider.Release(ctx, req)
	})
	return err
}

func (p *Intercepted) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	return intercept(ctx, p, "Break", req, p.Provider.Break)
}

func (p *Intercepted) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	return intercept(ctx, p, "Inspect", req, p.Provider.Inspect)
}

func (p *Intercepted) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	batcher, _ := abstractions.As[abstractions.BatchRenewer](p.Provider)
	return intercept(ctx, p, "RenewBatch", reqs, batcher.RenewBatch)
}

func (p *Intercepted) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	waiter, _ := abstractions.As[abstractions.Waiter](p.Provider)
	return intercept(ctx, p, "Wait", req, waiter.Wait)
}

func (p *Intercepted) Waiters(ctx context.Context, req abstractions.WaitersRequest) ([]abstractions.Waiting, error) {
	lister, _ := abstractions.As[abstractions.WaiterLister](p.Provider)
	return intercept(ctx, p, "Waiters", req, lister.Waiters)
}

func (p *Intercepted) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	lister, _ := abstractions.As[abstractions.Lister](p.Provider)
	return intercept(ctx, p, "List", req, lister.List)
}

func (p *Intercepted) Ping(ctx context.Context) error {
	pinger, _ := abstractions.As[abstractions.Pinger](p.Provider)
	_, err := intercept(ctx, p, "Ping", nothing{}, func(ctx context.Context, _ nothing) (nothing, error) {
		return nothing{}, pinger.Ping(ctx)
	})
	return err
}

func (p *Intercepted) History(ctx context.Context, req abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
	reader, _ := abstractions.As[abstractions.HistoryReader](p.Provider)
	return intercept(ctx, p, "History", req, reader.History)
}

// As lends the abilities of the provider.
func (p *Intercepted) As(target any) bool {
	switch ability := target.(type) {
	case *abstractions.BatchRenewer:
		return lend(p, ability)
	case *abstractions.Waiter:
		return lend(p, ability)
	case *abstractions.WaiterLister:
		return lend(p, ability)
	case *abstractions.Lister:
		return lend(p, ability)
	case *abstractions.Pinger:
		return lend(p, ability)
	case *abstractions.HistoryReader:
		return lend(p, ability)
	}
	return false
}

func lend[T any](p *Intercepted, ability *T) (ok bool) {
	if _, ok = abstractions.As[T](p.Provider); ok {
		*ability = any(p).(T)
	}
	return ok
}
