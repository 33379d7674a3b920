package node

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/batch"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
)

type batcher = batch.Batcher[*script.Operation]

// Request is operations that are sent together.
type Request = batch.Request[*script.Operation]

// batches combine the operations that a process makes at the same time. On a Cluster
// each master has a batcher, so that one that hangs does not hold up what the others could do.
type batches struct {
	node   *Node
	timely bool
	known  atomic.Bool // the client knows the Cluster

	mu       sync.Mutex
	byMaster map[*redis.Client]*batcher // of a Cluster; elsewhere the one batcher has no master
	closed   bool
}

// of returns the batcher of an operation's key.
func (bs *batches) of(ctx context.Context, op *script.Operation) (*batcher, error) {
	master, err := bs.masterFor(ctx, op.Keys[0])
	if err != nil {
		return nil, err
	}
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.closed {
		return nil, abstractions.ErrClosed
	}
	b := bs.byMaster[master]
	if b == nil {
		b = batch.New(bs.node.send, bs.timely)
		bs.byMaster[master] = b
	}
	return b, nil
}

// masterFor returns the master of a key on a Cluster, else nil. Until the client knows
// the Cluster it asks a server that is maybe frozen, and does not hear of ctx.
func (bs *batches) masterFor(ctx context.Context, key string) (*redis.Client, error) {
	cluster := bs.node.cluster
	if cluster == nil {
		return nil, nil
	}
	if bs.known.Load() {
		master, err := cluster.MasterForKey(ctx, key)
		return master, failure.Of(err)
	}
	master, err := aside(ctx, bs.node, func(ctx context.Context) (*redis.Client, error) { return cluster.MasterForKey(ctx, key) })
	if err == nil {
		bs.known.Store(true)
	}
	return master, err
}

// Do runs an operation and waits for it, or for the end of ctx, which needs a
// deadline. The operation has its reply if there is no error.
func (d *Node) Do(ctx context.Context, op *script.Operation) error {
	b, err := d.batches.of(ctx, op)
	if err != nil {
		return err
	}
	return b.Do(ctx, op)
}

// DoAll runs operations in as few calls as possible, one beside the other, and
// returns their replies. Those that are not there when ctx ends are errors.
func (d *Node) DoAll(ctx context.Context, ops []script.Operation) []script.Reply {
	list, replies := make([]*script.Operation, len(ops)), make([]script.Reply, len(ops))
	for i := range ops {
		list[i] = &ops[i]
	}
	of := func(op *script.Operation) (*batcher, error) { return d.batches.of(ctx, op) }
	for i, err := range batch.DoAll(ctx, list, of) {
		if replies[i].Err = err; err == nil {
			replies[i] = ops[i].Reply
		}
	}
	return replies
}

// Start begins a request, whose operations are all of one master.
func (d *Node) Start(r *Request) error {
	b, err := d.batches.of(r.Context, r.Ops[0])
	if err != nil {
		return err
	}
	return b.Start(r)
}

// close refuses what comes, and what waits, and lets calls under way end.
func (bs *batches) close() {
	bs.mu.Lock()
	bs.closed = true
	bs.mu.Unlock()
	var all sync.WaitGroup
	for _, b := range bs.byMaster {
		all.Go(b.Close)
	}
	all.Wait()
}
