package leasingtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
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

// Handler decides the outcome of a call. It calls apply, at most once, to let
// the call take effect, and returns the caller's error: apply's or another.
// Like a request that has reached its server, apply ignores ctx. If a handler
// returns nil without apply, the caller gets zero values.
type Handler func(ctx context.Context, call Call, apply func() error) error

// Provider is a leasing.Provider that keeps its leases in memory and lets
// handlers decide the outcome of each call. It has all optional abilities.
// The handlers get a batch of renewals lease by lease.
type Provider struct {
	backend *memlease.Provider

	mu       sync.Mutex
	handlers []*Handler
	calls    []Call
	count    map[Op]int
	taken    map[string]abstractions.LostReason // by claim ID: see Lose
}

// NewProvider returns a provider without handlers.
func NewProvider() *Provider {
	return &Provider{
		backend: memlease.New(memlease.Options{}),
		count:   map[Op]int{},
		taken:   map[string]abstractions.LostReason{},
	}
}

// Use adds a handler, which runs before the present ones, until remove is called.
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

// Calls returns the calls so far, in the order in which they came.
func (p *Provider) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// Count returns the number of calls of an Op.
func (p *Provider) Count(op Op) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count[op]
}

// pass passes a call through the handlers, beginning with the latest. In apply ctx no
// longer ends: the request has reached its server.
func pass[Q, T any](ctx context.Context, p *Provider, call Call, req Q, apply func(context.Context, Q) (T, error)) (result T, err error) {
	if ctx.Err() != nil {
		return result, context.Cause(ctx)
	}
	p.mu.Lock()
	p.count[call.Op]++
	call.N, call.At = p.count[call.Op], time.Now()
	p.calls = append(p.calls, call)
	handlers := p.handlers
	p.mu.Unlock()
	next := func() (err error) {
		result, err = apply(context.WithoutCancel(ctx), req)
		return err
	}
	for _, h := range handlers {
		inner := next
		next = func() error { return (*h)(ctx, call, inner) }
	}
	if err := next(); err != nil {
		return *new(T), err // never with a result that was applied
	}
	return result, nil
}

func (p *Provider) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	return pass(ctx, p, Call{Op: Acquire, Name: req.Name, ID: req.ID, TTL: req.TTL}, req, p.backend.Acquire)
}

func (p *Provider) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	return pass(ctx, p, Call{Op: Renew, Name: req.Name, ID: req.ID, TTL: req.TTL}, req, p.renew)
}

// renew refuses a lease that Lose has taken away.
func (p *Provider) renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	p.mu.Lock()
	reason, taken := p.taken[req.ID]
	p.mu.Unlock()
	if taken {
		return abstractions.Grant{}, &abstractions.LostError{Reason: reason}
	}
	return p.backend.Renew(ctx, req)
}

func (p *Provider) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	results := make([]abstractions.RenewResult, len(reqs))
	for i, req := range reqs {
		results[i].Grant, results[i].Err = p.Renew(ctx, req)
	}
	return results, nil
}

type nothing = struct{}

func (p *Provider) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	_, err := pass(ctx, p, Call{Op: Release, Name: req.Name, ID: req.ID}, req, func(ctx context.Context, req abstractions.ReleaseRequest) (nothing, error) {
		return nothing{}, p.backend.Release(ctx, req)
	})
	return err
}

func (p *Provider) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	return pass(ctx, p, Call{Op: Break, Name: req.Name}, req, p.backend.Break)
}

func (p *Provider) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	return pass(ctx, p, Call{Op: Inspect, Name: req.Name}, req, p.backend.Inspect)
}

func (p *Provider) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	return pass(ctx, p, Call{Op: Wait, Name: req.Name, ID: req.ID}, req, func(_ context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
		return p.backend.Wait(ctx, req) // the registration ends with its context
	})
}

func (p *Provider) Waiters(ctx context.Context, req abstractions.WaitersRequest) ([]abstractions.Waiting, error) {
	return pass(ctx, p, Call{Op: Waiters, Name: req.Name}, req, p.backend.Waiters)
}

func (p *Provider) List(ctx context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	return pass(ctx, p, Call{Op: List}, req, p.backend.List)
}

func (p *Provider) Ping(ctx context.Context) error {
	_, err := pass(ctx, p, Call{Op: Ping}, nothing{}, func(ctx context.Context, _ nothing) (nothing, error) { return nothing{}, p.backend.Ping(ctx) })
	return err
}

// Capabilities are those of the memory provider, without HeedsContext: a handler may
// ignore its context.
func (p *Provider) Capabilities() abstractions.Capabilities {
	c := p.backend.Capabilities()
	c.HeedsContext = false
	return c
}

func (p *Provider) Close() error { return p.backend.Close() }
