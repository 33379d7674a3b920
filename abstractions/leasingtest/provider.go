package leasingtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// Op is a verb of a provider.
type Op string

// The verbs that can be scripted.
const (
	Acquire Op = "acquire"
	Renew   Op = "renew"
	Release Op = "release"
	Break   Op = "break"
	Inspect Op = "inspect"
	Wait    Op = "wait"
	Waiters Op = "waiters"
	List    Op = "list"
	Ping    Op = "ping"
)

// Call is one request to the provider.
type Call struct {
	Op   Op
	Name string // "" for List and Ping
	ID   string // "" for Break, Inspect, Waiters, List and Ping
	TTL  time.Duration
	At   time.Time // when it arrived
	N    int       // the number of the call among those of its Op, from 1
}

// Handler decides the outcome of a call. It calls apply, at most once, to let the call
// take effect, and returns the error for the caller: the error from apply, or another error. Like a request that has reached its
// server, apply ignores ctx. If a handler returns nil without apply, the caller gets zero values.
type Handler func(ctx context.Context, call Call, apply func() error) error

// calls has the methods of a Provider. The interface has no method As, so that a type that embeds a Provider may override an
// ability.
type calls interface {
	abstractions.Provider
	abstractions.BatchRenewer
	abstractions.Waiter
	abstractions.WaiterLister
	abstractions.Lister
	abstractions.Pinger
}

// Provider is a leasing.Provider that keeps its leases in memory and lets handlers
// decide the outcome of each call. It has all optional abilities except HistoryReader. The handlers receive a batch of renewals
// as one Renew per lease.
type Provider struct {
	calls
	backend *memlease.Provider

	mu       sync.Mutex
	handlers []*Handler
	past     []Call
	count    map[Op]int
	taken    map[string]abstractions.LostReason // by claim ID: see Lose
}

// NewProvider returns a provider without handlers.
func NewProvider() *Provider {
	p := &Provider{
		backend: memlease.New(memlease.Options{}),
		count:   map[Op]int{},
		taken:   map[string]abstractions.LostReason{},
	}
	p.calls = providerkit.Intercept(p.backend, p.handle)
	return p
}

// Use adds a handler. Until remove is called, it runs before the earlier handlers.
func (p *Provider) Use(h Handler) (remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry := &h
	p.handlers = append(slices.Clone(p.handlers), entry)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.handlers = slices.DeleteFunc(slices.Clone(p.handlers), func(e *Handler) bool { return e == entry })
	}
}

// Clear removes all handlers.
func (p *Provider) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handlers = nil
}

// Calls returns the calls so far, in the order of their arrival.
func (p *Provider) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.past)
}

// Count returns the number of calls of an Op.
func (p *Provider) Count(op Op) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count[op]
}

// handle passes a call through the handlers, beginning with the latest. A batch becomes calls of Renew.
func (p *Provider) handle(ctx context.Context, x *providerkit.Exchange) (reply any, err error) {
	if reqs, ok := x.Request.([]abstractions.RenewRequest); ok {
		results := make([]abstractions.RenewResult, len(reqs))
		for i, req := range reqs {
			results[i].Grant, results[i].Err = p.Renew(ctx, req)
		}
		return results, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	call, handlers := p.note(x)
	next := func() (err error) {
		reply, err = p.apply(ctx, x)
		return err
	}
	for _, h := range handlers {
		inner := next
		next = func() error { return (*h)(ctx, call, inner) }
	}
	if err := next(); err != nil {
		return nil, err // without a result, even if the call was applied
	}
	return reply, nil
}

// note counts a call, and returns it with the current handlers.
func (p *Provider) note(x *providerkit.Exchange) (Call, []*Handler) {
	call := Call{Op: Op(x.Method), Name: x.Name, ID: x.ID, At: time.Now()}
	switch req := x.Request.(type) {
	case abstractions.AcquireRequest:
		call.TTL = req.TTL
	case abstractions.RenewRequest:
		call.TTL = req.TTL
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[call.Op]++
	call.N = p.count[call.Op]
	p.past = append(p.past, call)
	return call, p.handlers
}

// apply makes the call on the memory provider. Like a request that has reached its server, it does not end with ctx. It
// refuses to renew a lease that Lose has ended.
func (p *Provider) apply(ctx context.Context, x *providerkit.Exchange) (any, error) {
	if req, ok := x.Request.(abstractions.RenewRequest); ok {
		p.mu.Lock()
		reason, taken := p.taken[req.ID]
		p.mu.Unlock()
		if taken {
			return nil, &abstractions.LostError{Reason: reason}
		}
	}
	if x.Method != providerkit.MethodWait { // a registration ends with its context
		ctx = context.WithoutCancel(ctx)
	}
	return x.Send(ctx, x.Request)
}

// Capabilities are those of the memory provider, without HeedsContext: a handler may
// ignore its context.
func (p *Provider) Capabilities() abstractions.Capabilities {
	c := p.backend.Capabilities()
	c.HeedsContext = false
	return c
}
