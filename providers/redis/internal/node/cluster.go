package node

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
)

// batcherOfMaster returns the batcher of the key's master. Each master has its own, so that a hung master does not delay requests
// to the others. A client that has not read the Cluster's slots yet ignores ctx while it requests them from a server, which may
// be frozen.
func (d *Node) batcherOfMaster(ctx context.Context, op *script.Operation) (*batcher, error) {
	find := func(ctx context.Context) (*redis.Client, error) { return d.cluster.MasterForKey(ctx, op.Keys[0]) }
	var master *redis.Client
	var err error
	if d.slotsKnown.Load() {
		master, err = find(ctx)
	} else if master, err = callDetached(ctx, d, find); err == nil {
		d.slotsKnown.Store(true)
	}
	if err != nil {
		return nil, failure.OfCluster(d.clientError(err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byMaster == nil {
		return nil, abstractions.ErrClosed
	}
	if d.byMaster[master] == nil {
		d.byMaster[master] = d.newBatcher(master)
	}
	return d.byMaster[master], nil
}
