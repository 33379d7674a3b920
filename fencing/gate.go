package fencing

import (
	"context"
	"sync"
	"sync/atomic"
)

// Gate protects one resource in this process: it admits the holder of the
// highest token, one call at a time. The zero Gate admits any token. It is
// safe for concurrent use and must not be copied.
//
// A Gate loses its token when the process ends. A resource that outlives the
// process needs a check that is stored with it, like sqlfence.Table.
type Gate struct {
	resource string // in errors; "" unless the Gate belongs to a Gates

	once sync.Once
	turn chan struct{} // full while a Do runs; only that Do writes seen
	seen atomic.Int64
}

// Do runs fn if token is not stale and remembers the token. It refuses, with a
// *StaleError, a token smaller than the highest so far. Calls run one at a time,
// so no larger token is admitted between the check and the end of fn. If ctx ends
// while Do waits for its turn, it returns the cause of ctx. Otherwise it returns
// fn's error unchanged.
func (g *Gate) Do(ctx context.Context, token int64, fn func(ctx context.Context) error) error {
	if err := Check(g.resource, token, 0); err != nil {
		return err
	}
	g.once.Do(func() { g.turn = make(chan struct{}, 1) })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case g.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-g.turn }()
	if err := Check(g.resource, token, g.seen.Load()); err != nil {
		return err
	}
	g.seen.Store(token)
	return fn(ctx)
}

// Seen returns the highest token so far, or 0 before any token.
func (g *Gate) Seen() int64 { return g.seen.Load() }
