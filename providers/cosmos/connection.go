package cosmoslease

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing/abstractions"
)

// connection finds the container, when it is first needed: azcosmos reads the
// account, and a read of the container shows that it exists and what its partition
// key is. One caller at a time does that, and goes on when its context ends, since
// azcosmos heeds no caller's context then: the shell has ended the call. See
// providerkit.Config.Detach.
type connection struct {
	options Options
	wire    *wire
	found   atomic.Pointer[container]
	finding chan struct{} // of one place
}

// container is the one that leases are in.
type container struct {
	*azcosmos.ContainerClient
	client *azcosmos.Client
	path   []string // of the partition key
}

// container returns the container, or waits for it until ctx ends.
func (c *connection) container(ctx context.Context) (*container, error) {
	found := c.found.Load()
	if found == nil {
		var err error
		if found, err = c.find(ctx); err != nil {
			return nil, err
		}
	}
	if c.refused() {
		c.forget(found) // the next call looks again
		return nil, errSeveralRegions
	}
	return found, nil
}

// find uses a client of its own: one of azcosmos that has failed to read the account
// does not try again for five minutes.
func (c *connection) find(ctx context.Context) (*container, error) {
	select {
	case c.finding <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-c.finding }()
	if found := c.found.Load(); found != nil {
		return found, nil
	}
	own, cancel := context.WithTimeout(c.wire.lifetime, c.options.Timeout)
	defer cancel()
	found, err := c.open(own)
	if err == nil {
		c.found.Store(found)
	}
	return found, err
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

// close closes what is not in use. No call is under way, and the wire's lifetime has
// ended.
func (c *connection) close() {
	if found := c.found.Load(); found != nil {
		found.client.Close()
	}
	c.wire.close()
}
