package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// perStream is how many renewals share a stream: a member answers one after the other, and asks the leader each time.
	perStream = 32
	// perLook bounds the claims that a transaction looks at, with two conditions each: etcd takes 128, unless --max-txn-ops says
	// otherwise.
	perLook = 64
)

// keeper renews claims. Those that are due at the same time share requests. Streams stay open for the next ones: with a
// password etcd checks it for each new one, by bcrypt.
type keeper struct {
	client  *clientv3.Client
	calls   *batch.Batcher[*prolongation]
	ctx     context.Context // of all streams
	stop    context.CancelFunc
	perLook atomic.Int64 // as the constant, or as many as the members take
	mu      sync.Mutex
	idle    []*stream
}

// prolongation is a renewal of one claim.
type prolongation struct {
	batch.Outcome
	lease  clientv3.LeaseID
	stands []clientv3.Cmp // two: that the claim's key has the same value, and the record the same revision
	term   uint64         // of the consensus, as the member knew it that has answered
}

// errFormerLeader is of a lease that was prolonged, perhaps, by a member that was stopped while another was elected: it answers at
// once when it goes on, by its own clock, and the leader knows nothing of it.
var errFormerLeader = fmt.Errorf("%w: etcd has another leader than when the lease was prolonged", abstractions.ErrUnavailable)

type stream struct {
	pb.Lease_LeaseKeepAliveClient // answers in the order of the requests; nil at first
	ctx                           context.Context
	cancel                        context.CancelFunc
}

func newKeeper(client *clientv3.Client) *keeper {
	k := &keeper{client: client}
	k.perLook.Store(perLook)
	k.calls = batch.New(k.renewMany, batch.UntilItLeaves)
	k.ctx, k.stop = context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	return k
}

// renewMany prolongs the leases of claims by their TTLs, from when the requests arrive on, and then looks whether the claims
// stand. Where either is gone there is ErrConflict.
func (k *keeper) renewMany(ctx context.Context, all []*prolongation, _ bool) {
	var streams providerkit.Group
	for part := range slices.Chunk(all, perStream) {
		streams.Go(func() error {
			k.prolong(ctx, part)
			return nil
		}, func(err error) {
			for i := 0; err != nil && i < len(part); i++ {
				part[i].Fail(err)
			}
		})
	}
	streams.Wait()
	alive := slices.DeleteFunc(slices.Clone(all), func(p *prolongation) bool { return p.Err() != nil })
	for part := range slices.Chunk(alive, int(k.perLook.Load())) {
		k.look(ctx, part)
	}
}

// prolong sends KeepAlives over a stream that is idle, or a new one.
func (k *keeper) prolong(ctx context.Context, part []*prolongation) {
	k.mu.Lock()
	if len(k.idle) == 0 {
		own, cancel := context.WithCancel(k.ctx)
		k.idle = append(k.idle, &stream{ctx: own, cancel: cancel})
	}
	s := k.idle[0]
	k.idle = k.idle[1:]
	k.mu.Unlock()
	stop := context.AfterFunc(ctx, s.cancel)
	_, err := elsewhere(k.client, func() (none struct{}, err error) { return none, s.prolong(k.client, part) })
	good := stop() && err == nil
	k.mu.Lock()
	defer k.mu.Unlock()
	k.idle = append(k.idle, s)
	if !good || len(k.idle) > 2*batch.MaxOperations/perStream { // the others may be of the same member
		k.drop()
	}
}

// drop ends the streams that are idle. Caller holds mu.
func (k *keeper) drop() {
	for _, s := range k.idle {
		s.cancel()
	}
	k.idle = nil
}

func (s *stream) prolong(client *clientv3.Client, part []*prolongation) (err error) {
	if s.Lease_LeaseKeepAliveClient == nil {
		s.Lease_LeaseKeepAliveClient, err = pb.NewLeaseClient(client.ActiveConnection()).LeaseKeepAlive(s.ctx)
	}
	for i := 0; i < len(part) && err == nil; i++ {
		_ = s.Send(&pb.LeaseKeepAliveRequest{ID: int64(part[i].lease)}) // if it fails Recv says why
	}
	for _, p := range part {
		var answer *pb.LeaseKeepAliveResponse
		if err == nil {
			answer, err = s.Recv()
		}
		if err == nil && answer.ID != int64(p.lease) {
			err = errors.New("renewals are answered in another order than that of the requests")
		}
		if p.Fail(err); err == nil && answer.TTL <= 0 {
			p.Fail(providerkit.ErrConflict)
		}
		p.term = answer.GetHeader().GetRaftTerm()
	}
	if err != nil {
		s.Lease_LeaseKeepAliveClient = nil
	}
	return err
}

// look fails those whose claim, or its record, is another than it was. It is a linearizable read, for it asks for a key.
func (k *keeper) look(ctx context.Context, all []*prolongation) {
	var stand []clientv3.Cmp
	for _, p := range all {
		stand = append(stand, p.stands...)
	}
	answer, err := txn(ctx, k.client, stand, clientv3.OpGet(string(stand[0].KeyBytes()), clientv3.WithKeysOnly()))
	switch half := len(all) / 2; {
	case is(err, rpctypes.ErrGRPCTooManyOps) && half > 0: // see perLook
		k.perLook.Store(int64(half))
		k.look(ctx, all[:half])
		k.look(ctx, all[half:])
	case err != nil:
		for _, p := range all {
			p.Fail(err)
		}
	case answer.Succeeded:
		for _, p := range all {
			if p.lease != clientv3.NoLease && answer.Header.RaftTerm > p.term {
				p.Fail(errFormerLeader)
				k.mu.Lock()
				k.drop() // another member may know
				k.mu.Unlock()
			}
		}
	case half == 0:
		all[0].Fail(providerkit.ErrConflict)
	default:
		k.look(ctx, all[:half])
		k.look(ctx, all[half:])
	}
}
