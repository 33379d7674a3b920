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
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// perStream is the number of renewals that share a stream: a member handles them one by one,
	// with a request to the leader for each.
	perStream = 32
	// perCheck limits the number of claims in a read transaction. Each has two conditions, and etcd accepts 128
	// operations by default (--max-txn-ops).
	perCheck = 64
)

// keeper renews claims. Claims that are due at the same time share requests. Streams stay open for later renewals: with
// a password, etcd checks the password for each new stream, with bcrypt.
type keeper struct {
	client   *clientv3.Client
	calls    *batch.Batcher[*renewal]
	ctx      context.Context // of all streams
	stop     context.CancelFunc
	perCheck atomic.Int64 // at first the constant, later the number that the members accept
	mu       sync.Mutex
	idle     []*stream
}

// renewal is a renewal of one claim.
type renewal struct {
	batch.Outcome
	lease      clientv3.LeaseID
	conditions []clientv3.Cmp // two conditions: the claim's key has the same value, and the record has the same revision
	term       uint64         // the Raft term of the member that answered
}

// errFormerLeader is the error of a renewal whose answer may come from a former leader, which was stopped while another member
// was elected. When the former leader resumes, it answers at once, by its own clock, and the new leader has not seen the
// renewal.
var errFormerLeader = fmt.Errorf("%w: the leader of etcd has changed since the lease was prolonged", abstractions.ErrUnavailable)

type stream struct {
	pb.Lease_LeaseKeepAliveClient // answers in the order of the requests; nil at first
	ctx                           context.Context
	cancel                        context.CancelFunc
}

func newKeeper(client *clientv3.Client) *keeper {
	k := &keeper{client: client}
	k.perCheck.Store(perCheck)
	k.calls = batch.New(k.renewMany, batch.UntilItLeaves)
	k.ctx, k.stop = context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	return k
}

// renewMany prolongs the leases of claims by their TTLs, counted from the arrival of the requests, and then checks that the
// claims are unchanged. A missing lease or claim leads to ErrConflict.
func (k *keeper) renewMany(ctx context.Context, all []*renewal, _ bool) {
	var streams providerkit.Group
	for part := range slices.Chunk(all, perStream) {
		streams.Go(func() error {
			k.keepAlive(ctx, part)
			return nil
		}, func(err error) {
			for i := 0; err != nil && i < len(part); i++ {
				part[i].Fail(err)
			}
		})
	}
	streams.Wait()
	alive := slices.DeleteFunc(slices.Clone(all), func(p *renewal) bool { return p.Err() != nil })
	for part := range slices.Chunk(alive, int(k.perCheck.Load())) {
		k.check(ctx, part)
	}
}

// keepAlive sends KeepAlives over an idle or a new stream.
func (k *keeper) keepAlive(ctx context.Context, part []*renewal) {
	k.mu.Lock()
	if len(k.idle) == 0 {
		own, cancel := context.WithCancel(k.ctx)
		k.idle = append(k.idle, &stream{ctx: own, cancel: cancel})
	}
	s := k.idle[0]
	k.idle = k.idle[1:]
	k.mu.Unlock()
	stop := context.AfterFunc(ctx, s.cancel)
	_, err := retryOnLearner(ctx, k.client, func() (none struct{}, err error) { return none, s.keepAlive(k.client, part) })
	good := stop() && err == nil
	k.mu.Lock()
	defer k.mu.Unlock()
	k.idle = append(k.idle, s)
	if !good || len(k.idle) > 2*batch.MaxOperations/perStream { // the other streams may be to the same member
		k.drop()
	}
}

// drop ends the idle streams. Caller holds mu.
func (k *keeper) drop() {
	for _, s := range k.idle {
		s.cancel()
	}
	k.idle = nil
}

func (s *stream) keepAlive(client *clientv3.Client, part []*renewal) (err error) {
	if s.Lease_LeaseKeepAliveClient == nil {
		s.Lease_LeaseKeepAliveClient, err = pb.NewLeaseClient(client.ActiveConnection()).LeaseKeepAlive(s.ctx)
	}
	for i := 0; i < len(part) && err == nil; i++ {
		_ = s.Send(&pb.LeaseKeepAliveRequest{ID: int64(part[i].lease)}) // if Send fails, Recv returns the cause
	}
	for _, p := range part {
		var answer *pb.LeaseKeepAliveResponse
		if err == nil {
			answer, err = s.Recv()
		}
		if err == nil && answer.ID != int64(p.lease) {
			err = errors.New("renewals are not answered in the order of the requests")
		}
		if p.Fail(err); err == nil && answer.TTL <= 0 {
			p.Fail(cas.ErrConflict)
		}
		p.term = answer.GetHeader().GetRaftTerm()
	}
	if err != nil {
		s.Lease_LeaseKeepAliveClient = nil
	}
	return err
}

// check fails the renewals whose claim or record has changed. The transaction is a linearizable read, because it reads a key.
func (k *keeper) check(ctx context.Context, all []*renewal) {
	var conditions []clientv3.Cmp
	for _, p := range all {
		conditions = append(conditions, p.conditions...)
	}
	answer, err := txn(ctx, k.client, conditions, clientv3.OpGet(string(conditions[0].KeyBytes()), clientv3.WithKeysOnly()))
	switch half := len(all) / 2; {
	case isEtcdError(err, rpctypes.ErrGRPCTooManyOps) && half > 0: // see perCheck
		k.perCheck.Store(int64(half))
		k.check(ctx, all[:half])
		k.check(ctx, all[half:])
	case err != nil:
		for _, p := range all {
			p.Fail(err)
		}
	case answer.Succeeded:
		for _, p := range all {
			if p.lease != clientv3.NoLease && answer.Header.RaftTerm > p.term {
				p.Fail(errFormerLeader)
				k.mu.Lock()
				k.drop() // another member may have the lease
				k.mu.Unlock()
			}
		}
	case half == 0:
		all[0].Fail(cas.ErrConflict)
	default:
		k.check(ctx, all[:half])
		k.check(ctx, all[half:])
	}
}
