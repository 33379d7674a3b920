package fencing

import (
	"context"
	"sync"
)

// Fence protects resources by name: Gates, in memory; what CheckFirst makes of
// a check that is stored with the resource; or a FenceFunc of your own.
type Fence interface {
	// Do runs fn, once, if token is not stale for the resource, and refuses it
	// with a *StaleError otherwise. It returns fn's error as it is.
	Do(ctx context.Context, resource string, token int64, fn func(ctx context.Context) error) error
}

// FenceFunc is a Fence made of its method.
type FenceFunc func(ctx context.Context, resource string, token int64, fn func(ctx context.Context) error) error

// Do calls f.
func (f FenceFunc) Do(ctx context.Context, resource string, token int64, fn func(ctx context.Context) error) error {
	return f(ctx, resource, token, fn)
}

// CheckFirst makes a Fence of a check like redisfence.Fence.Advance: what it guards runs
// if the check returns nil. A larger token can get in while it runs, so work
// that was admitted may end after a successor's has begun. What it writes needs
// a check of its own where it is stored.
func CheckFirst(advance func(ctx context.Context, resource string, token int64) error) Fence {
	return FenceFunc(func(ctx context.Context, resource string, token int64, fn func(ctx context.Context) error) error {
		if err := advance(ctx, resource, token); err != nil {
			return err
		}
		return fn(ctx)
	})
}

// Gates is a Gate for each resource of this process, by name. The zero Gates
// is ready. It is safe for concurrent use and must not be copied.
//
// It remembers every name that it was asked for until the process ends, in some
// 200 bytes each. So take names from a set that is bounded, and not straight
// from a request.
type Gates struct {
	mu    sync.Mutex
	gates map[string]*Gate
}

// Do is Gate.Do for one resource: calls for it run one at a time, and no larger
// token gets in between the check and the end of fn. Resources don't wait for
// each other.
func (g *Gates) Do(ctx context.Context, resource string, token int64, fn func(ctx context.Context) error) error {
	return g.gate(resource).Do(ctx, token, fn)
}

// Seen returns the highest token so far, 0 if there was none.
func (g *Gates) Seen(resource string) int64 {
	g.mu.Lock()
	gate := g.gates[resource]
	g.mu.Unlock()
	if gate == nil {
		return 0
	}
	return gate.Seen()
}

func (g *Gates) gate(resource string) *Gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	gate := g.gates[resource]
	if gate == nil {
		if g.gates == nil {
			g.gates = make(map[string]*Gate)
		}
		gate = &Gate{resource: resource}
		g.gates[resource] = gate
	}
	return gate
}
