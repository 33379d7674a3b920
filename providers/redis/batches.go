package redislease

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/batch"
	"github.com/redis/go-redis/v9"
)

type (
	batcher = batch.Batcher[*operation]
	request = batch.Request[*operation]
)

// batches combine the operations that a process makes at the same time. On a Cluster
// each master has a batcher, so that one that hangs does not hold up what the others could do.
type batches struct {
	node   *node
	timely bool
	known  atomic.Bool // the client knows the Cluster

	mu       sync.Mutex
	byMaster map[*redis.Client]*batcher // of a Cluster; elsewhere the one batcher has no master
	closed   bool
}

func (bs *batches) init(d *node, timely bool) {
	bs.node, bs.timely, bs.byMaster = d, timely, map[*redis.Client]*batcher{}
}

// of returns the batcher of an operation's key.
func (bs *batches) of(ctx context.Context, op *operation) (*batcher, error) {
	master, err := bs.masterFor(ctx, op.keys[0])
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
		return master, failure(err)
	}
	master, err := aside(ctx, bs.node, func(ctx context.Context) (*redis.Client, error) { return cluster.MasterForKey(ctx, key) })
	if err == nil {
		bs.known.Store(true)
	}
	return master, err
}

// do runs an operation and waits for it, or for the end of ctx, which needs a
// deadline. The operation has its reply if there is no error.
func (d *node) do(ctx context.Context, op *operation) error {
	b, err := d.batches.of(ctx, op)
	if err != nil {
		return err
	}
	return b.Do(ctx, op)
}

// doAll runs operations in as few calls as possible, one beside the other, and
// returns their replies. Those that are not there when ctx ends are errors.
func (d *node) doAll(ctx context.Context, ops []operation) []reply {
	list, replies := make([]*operation, len(ops)), make([]reply, len(ops))
	for i := range ops {
		list[i] = &ops[i]
	}
	of := func(op *operation) (*batcher, error) { return d.batches.of(ctx, op) }
	for i, err := range batch.DoAll(ctx, list, of) {
		if replies[i].err = err; err == nil {
			replies[i] = ops[i].reply
		}
	}
	return replies
}

// start begins a request, whose operations are all of one master.
func (d *node) start(r *request) error {
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

// Repeatable says that doing it twice is the same as doing it once.
func (op *operation) Repeatable() bool { return op.script.repeatable }

// Err is why it has no reply.
func (op *operation) Err() error { return op.reply.err }

// Fail ends it without a reply.
func (op *operation) Fail(err error) { op.reply = reply{err: err} }
