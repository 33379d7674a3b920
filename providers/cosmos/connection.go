package cosmoslease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing/abstractions"
)

// connection finds the container, when it is first needed: azcosmos reads the
// account, and a read of the container shows that it exists and what its partition
// key is. That is done once for all callers, by a goroutine that outlives each of
// them, since azcosmos heeds no caller's context then.
type connection struct {
	options Options
	wire    *wire
	found   atomic.Pointer[container]

	mu      sync.Mutex
	finding *finding
	closed  bool
	workers sync.WaitGroup
}

// container is the one that leases are in.
type container struct {
	*azcosmos.ContainerClient
	client *azcosmos.Client
	path   []string // of the partition key
}

// finding is one attempt.
type finding struct {
	done      chan struct{}
	container *container
	err       error
}

// container waits for the container until ctx ends.
func (c *connection) container(ctx context.Context) (*container, error) {
	found := c.found.Load()
	if found == nil {
		f, err := c.find()
		if err != nil {
			return nil, err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if f.err != nil {
			return nil, f.err
		}
		found = f.container
	}
	if c.refused() {
		c.forget(found) // the next call looks again
		return nil, errSeveralRegions
	}
	return found, nil
}

// refused reports whether the account has several write regions, and may not.
func (c *connection) refused() bool {
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
	ctx, cancel := context.WithTimeout(c.wire.lifetime, c.options.Timeout)
	defer cancel()
	f.container, f.err = c.open(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.err == nil {
		c.found.Store(f.container)
	}
	c.finding = nil
	close(f.done)
}

func (c *connection) open(ctx context.Context) (*container, error) {
	client, err := c.options.client(c.wire)
	if err != nil {
		return nil, err
	}
	found := &container{client: client}
	if found.ContainerClient, err = client.NewContainer(c.options.Database, c.options.Container); err == nil {
		found.path, err = c.prepare(ctx, found)
	}
	if err != nil {
		client.Close()
		if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
			err = fmt.Errorf("%w: %w", ended, err)
		}
		return nil, readError{brief(err)} // nothing of a lease was written
	}
	return found, nil
}

// forget lets the container be found anew, after a request that met none.
func (c *connection) forget(found *container) {
	if c.found.CompareAndSwap(found, nil) {
		found.client.Close()
	}
}

// close waits for what is under way. The wire's lifetime has ended.
func (c *connection) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.workers.Wait()
	if found := c.found.Load(); found != nil {
		found.client.Close()
	}
	c.wire.close()
}
