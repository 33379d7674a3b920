package providerkit

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
)

// Method is a method of a provider or of an ability.
type Method string

// The methods.
const (
	MethodAcquire    Method = "acquire"
	MethodRenew      Method = "renew"
	MethodRelease    Method = "release"
	MethodBreak      Method = "break"
	MethodInspect    Method = "inspect"
	MethodRenewBatch Method = "renew_batch"
	MethodWait       Method = "wait"
	MethodWaiters    Method = "waiters"
	MethodList       Method = "list"
	MethodPing       Method = "ping"
	MethodHistory    Method = "history"
)

// Exchange is one call to a provider, on its way through Intercept.
type Exchange struct {
	Method  Method
	Name    string // the name of the lease; "" for a RenewBatch, a List and a Ping
	ID      string // the ID of the claim; "" if the method has no claim, and for a RenewBatch
	Request any    // an abstractions.AcquireRequest, for example; struct{}{} for a Ping
	// Send makes the call with a request of that type. The reply is a value, such as an abstractions.Grant, even with an
	// error. For a Release and a Ping it is struct{}{}. Send may be used again, concurrently, and after the call has
	// returned.
	Send func(ctx context.Context, req any) (reply any, err error)
}

// Handler handles a call in place of the provider. A nil reply stands for the zero value. Handlers may be called
// concurrently.
type Handler func(ctx context.Context, x *Exchange) (reply any, err error)

// Intercepted is a provider whose calls pass through a handler: see Intercept. Capabilities and Close are the
// provider's own.
type Intercepted struct {
	inner  abstractions.Provider
	passes func(Method) bool
	handle Handler

	batcher   abstractions.BatchRenewer
	waiter    abstractions.Waiter
	queue     abstractions.WaiterLister
	lister    abstractions.Lister
	pinger    abstractions.Pinger
	historian abstractions.HistoryReader
}

// Intercept returns a provider with the abilities of p, whose calls, including those of abilities, pass through the
// handler. A call to an ability that p lacks returns abstractions.ErrUnsupported.
func Intercept(p abstractions.Provider, handle Handler) *Intercepted {
	return InterceptUnless(p, func(Method) bool { return false }, handle)
}

// InterceptUnless is Intercept for a handler that is not always needed. If passes returns true, the call goes
// directly to the provider, and allocates nothing.
func InterceptUnless(p abstractions.Provider, passes func(Method) bool, handle Handler) *Intercepted {
	i := &Intercepted{inner: p, passes: passes, handle: handle}
	i.batcher, _ = abstractions.As[abstractions.BatchRenewer](p)
	i.waiter, _ = abstractions.As[abstractions.Waiter](p)
	i.queue, _ = abstractions.As[abstractions.WaiterLister](p)
	i.lister, _ = abstractions.As[abstractions.Lister](p)
	i.pinger, _ = abstractions.As[abstractions.Pinger](p)
	i.historian, _ = abstractions.As[abstractions.HistoryReader](p)
	return i
}

// nothing stands for a request or a reply that a method lacks.
type nothing = struct{}

// claim names the lease and the claim of a call.
type claim struct{ name, id string }

// intercept makes a call to the provider, or to one of its abilities.
func intercept[P, Q, R any](ctx context.Context, i *Intercepted, to P, method Method, of claim, req Q, verb func(P, context.Context, Q) (R, error)) (reply R, err error) {
	switch {
	case any(to) == nil:
		return reply, i.unsupported(method, of)
	case i.passes(method):
		return verb(to, ctx, req)
	}
	answer, err := i.handle(ctx, &Exchange{method, of.name, of.id, req, func(ctx context.Context, req any) (any, error) {
		return verb(to, ctx, req.(Q))
	}})
	reply, _ = answer.(R)
	return reply, err
}

func (i *Intercepted) unsupported(method Method, of claim) error {
	if method == MethodRenewBatch {
		method = MethodRenew
	}
	return &abstractions.Error{
		Op: string(method), Provider: i.inner.Capabilities().Provider, Name: of.name,
		Err: abstractions.ErrUnsupported, Fingerprint: abstractions.FingerprintOf(of.id),
	}
}

func (i *Intercepted) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	return intercept(ctx, i, i.inner, MethodAcquire, claim{req.Name, req.ID}, req, abstractions.Provider.Acquire)
}

func (i *Intercepted) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	return intercept(ctx, i, i.inner, MethodRenew, claim{req.Name, req.ID}, req, abstractions.Provider.Renew)
}

func (i *Intercepted) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	_, err := intercept(ctx, i, i.inner, MethodRelease, claim{req.Name, req.ID}, req,
		func(p abstractions.Provider, ctx context.Context, req abstractions.ReleaseRequest) (nothing, error) {
			return nothing{}, p.Release(ctx, req)
		})
	return err
}

func (i *Intercepted) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	return intercept(ctx, i, i.inner, MethodBreak, claim{name: req.Name}, req, abstractions.Provider.Break)
}

func (i *Intercepted) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	return intercept(ctx, i, i.inner, MethodInspect, claim{name: req.Name}, req, abstractions.Provider.Inspect)
}

func (i *Intercepted) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	return intercept(ctx, i, i.batcher, MethodRenewBatch, claim{}, reqs, abstractions.BatchRenewer.RenewBatch)
}

func (i *Intercepted) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	return intercept(ctx, i, i.waiter, MethodWait, claim{req.Name, req.ID}, req, abstractions.Waiter.Wait)
}

func (i *Intercepted) Waiters(ctx context.Context, req abstractions.WaitersRequest) ([]abstractions.Waiting, error) {
	return intercept(ctx, i, i.queue, MethodWaiters, claim{name: req.Name}, req, abstractions.WaiterLister.Waiters)
}

func (i *Intercepted) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	return intercept(ctx, i, i.lister, MethodList, claim{}, req, abstractions.Lister.List)
}

func (i *Intercepted) Ping(ctx context.Context) error {
	_, err := intercept(ctx, i, i.pinger, MethodPing, claim{}, nothing{}, func(p abstractions.Pinger, ctx context.Context, _ nothing) (nothing, error) {
		return nothing{}, p.Ping(ctx)
	})
	return err
}

func (i *Intercepted) History(ctx context.Context, req abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
	return intercept(ctx, i, i.historian, MethodHistory, claim{name: req.Name}, req, abstractions.HistoryReader.History)
}

func (i *Intercepted) Capabilities() abstractions.Capabilities { return i.inner.Capabilities() }

func (i *Intercepted) Close() error { return i.inner.Close() }

// As reports the abilities of the provider: see Lend.
func (i *Intercepted) As(target any) bool { return Lend(i, i.inner, target) }
