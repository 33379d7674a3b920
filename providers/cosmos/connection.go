package cosmoslease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing/abstractions"
)

// connection finds the container, when it is first needed: azcosmos reads the
// account, and a read of the container shows that it exists and what its partition
// key is. That is done once for all callers, by a goroutine that outlives each of
// them, since azcosmos heeds no caller's context then.
type connection struct {
	options  Options
	wire     *wire
	sessions sessions
	timeout  time.Duration // of finding

	found atomic.Pointer[items]

	mu      sync.Mutex
	finding *finding
	closed  bool
	workers sync.WaitGroup
}

// finding is one attempt.
type finding struct {
	done  chan struct{}
	items *items
	err   error
}

// items are the container's. It waits for them until ctx ends.
func (c *connection) items(ctx context.Context) (*items, error) {
	found := c.found.Load()
	if found == nil {
		f, err := c.find()
		if err != nil {
			return nil, err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, interrupted(ctx)
		}
		if f.err != nil {
			return nil, f.err
		}
		found = f.items
	}
	if c.several() {
		c.forget(found) // the next call looks again
		return nil, errSeveralRegions
	}
	return found, nil
}

// several reports whether the account is one that is to be refused.
func (c *connection) several() bool {
	return c.wire.several.Load() && !c.options.AllowMultipleWriteRegions
}

// errSeveralRegions: with several write regions a write is accepted in one while
// another one accepts a different one, and one of them is undone later
// (learn.microsoft.com/azure/cosmos-db/conflict-resolution-policies).
var errSeveralRegions = fmt.Errorf("%w: the account takes writes in several regions, where an ETag does not keep two holders apart: "+
	"use an account with one write region, or set Options.AllowMultipleWriteRegions if all clients are sure to use the same one", abstractions.ErrNotSetUp)

// find begins an attempt, or joins the one under way.
func (c *connection) find() (*finding, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, abstractions.ErrClosed
	}
	if c.finding == nil {
		f := &finding{done: make(chan struct{})}
		c.finding = f
		c.workers.Go(func() { c.attempt(f) })
	}
	return c.finding, nil
}

// attempt uses a client of its own: one of azcosmos that has failed to read the
// account does not try again for five minutes.
func (c *connection) attempt(f *finding) {
	ctx, cancel := context.WithTimeout(c.wire.lifetime, c.timeout)
	defer cancel()
	f.items, f.err = c.open(ctx)
	if f.err != nil && ctx.Err() != nil && !errors.Is(f.err, abstractions.ErrUnavailable) {
		f.err = fmt.Errorf("%w: %w", abstractions.ErrUnavailable, f.err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.err == nil {
		c.found.Store(f.items)
	}
	c.finding = nil
	close(f.done)
}

func (c *connection) open(ctx context.Context) (*items, error) {
	client, err := c.options.client(c.wire)
	if err != nil {
		return nil, err
	}
	path, err := c.container(ctx, client)
	if err != nil {
		client.Close()
		return nil, err
	}
	container, err := client.NewContainer(c.options.Database, c.options.Container)
	if err != nil {
		return nil, err
	}
	t := &items{
		container: container, client: client, path: path,
		naming: naming{prefix: c.options.Prefix}, sessions: &c.sessions,
	}
	if c.options.Consistency != "" {
		t.consistency = azcosmos.ConsistencyLevel(c.options.Consistency).ToPtr()
	}
	if c.options.ExpireDocuments {
		t.keptFor = c.options.Retention
	}
	return t, nil
}

// forget lets the container be found anew, after a request that met none.
func (c *connection) forget(t *items) {
	if c.found.CompareAndSwap(t, nil) {
		t.client.Close()
		c.sessions.drop()
	}
}

// beside runs a function that close waits for.
func (c *connection) beside(run func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return abstractions.ErrClosed
	}
	c.workers.Go(run)
	return nil
}

// close waits for what is under way. The wire's lifetime has ended.
func (c *connection) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.workers.Wait()
	if t := c.found.Load(); t != nil {
		t.client.Close()
	}
	c.wire.close()
}
