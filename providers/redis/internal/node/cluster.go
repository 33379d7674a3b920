package node

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
)

type batcher = batch.Batcher[*script.Operation]

// Request is operations that are sent together.
type Request = batch.Request[*script.Operation]

// cluster has a batcher for each master of a Cluster, so that one that hangs does not hold up
// what the others could do.
type cluster struct {
	*redis.ClusterClient
	newBatcher func() *batcher
	known      atomic.Bool // the client knows the Cluster

	mu       sync.Mutex
	byMaster map[*redis.Client]*batcher
	closed   bool
}

func newCluster(client *redis.ClusterClient, newBatcher func() *batcher) *cluster {
	return &cluster{ClusterClient: client, newBatcher: newBatcher, byMaster: map[*redis.Client]*batcher{}}
}

// batcherOf returns the batcher of a key's master. Until the client knows the Cluster it asks
// a server that is maybe frozen, and does not hear of ctx.
func (c *cluster) batcherOf(ctx context.Context, d *Node, key string) (*batcher, error) {
	find := func(ctx context.Context) (*redis.Client, error) { return c.MasterForKey(ctx, key) }
	var master *redis.Client
	var err error
	if c.known.Load() {
		master, err = find(ctx)
	} else if master, err = aside(ctx, d, find); err == nil {
		c.known.Store(true)
	}
	if err != nil {
		return nil, failure.Of(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, abstractions.ErrClosed
	}
	b := c.byMaster[master]
	if b == nil {
		b = c.newBatcher()
		c.byMaster[master] = b
	}
	return b, nil
}

// close refuses what comes, and what waits, and lets calls under way end.
func (c *cluster) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	var all sync.WaitGroup
	for _, b := range c.byMaster {
		all.Go(b.Close)
	}
	all.Wait()
}
