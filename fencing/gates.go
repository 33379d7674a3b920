package fencing

import (
	"context"
	"sync"
)

// Fence protects resources by name. It runs fn, once, if token is not stale for
// the resource, and refuses the token with a *StaleError otherwise. It returns
// fn's error unchanged. Gates.Do is a Fence, and so is the result of CheckFirst.
type Fence func(ctx context.Context, resource string, token int64, fn func(ctx context.Context) error) error

// CheckFirst makes a Fence from a check such as redisfence.Fence.Advance: fn runs if
// the check returns nil. A larger token can be admitted while fn runs, so work that was
// admitted may end after its successor's work has begun. The writes of fn need a
// check of their own where they are stored.
func CheckFirst(advance func(ctx context.Context, resource string, token int64) error) Fence {
	return func(ctx context.Context, resource string, token int64, fn func(ctx context.Context) error) error {
		if err := advance(ctx, resource, token); err != nil {
			return err
		}
		return fn(ctx)
	}
}

// Gates holds a Gate for each resource of this process, by name. The zero
// Gates is ready to use. It is safe for concurrent use and must not be
// copied.
//
// It keeps every name until the process ends, at about 200 bytes each. So take names from a bounded
// set, and not straight from a request.
type Gates struct {
	gates sync.Map // of *Gate, by name
}

// Do is Gate.Do for one resource. Calls for the same resource run one at a
// time; calls for different resources run concurrently.
func (g *Gates) Do(ctx context.Context, resource string, token int64, fn func(ctx context.Context) error) error {
	gate, ok := g.gates.Load(resource)
	if !ok {
		gate, _ = g.gates.LoadOrStore(resource, &Gate{resource: resource})
	}
	return gate.(*Gate).Do(ctx, token, fn)
}

// Seen returns the highest token so far, or 0 before any token.
func (g *Gates) Seen(resource string) int64 {
	if gate, ok := g.gates.Load(resource); ok {
		return gate.(*Gate).Seen()
	}
	return 0
}
