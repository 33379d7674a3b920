package etcdlease

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// perStream is how many renewals share a stream at a time. A member answers those of a
	// stream one after the other, and asks the leader each time.
	perStream = 32
	// perLook is how many claims one transaction looks at, by two conditions each: etcd takes
	// 128 in one (--max-txn-ops).
	perLook = 64
	// mostIdle is how many streams are kept: those of two full batches.
	mostIdle = 2 * batch.MaxOperations / perStream
)

// keeper renews claims. Those that are due at the same time share requests, and streams stay
// open: with a password etcd checks it for each new one, by bcrypt.
type keeper struct {
	client *clientv3.Client
	calls  *batch.Batcher[*prolongation]
	ctx    context.Context // of all streams
	stop   context.CancelFunc

	mu   sync.Mutex
	idle []*stream
}

// prolongation is a renewal of one claim.
type prolongation struct {
	batch.Outcome
	lease  clientv3.LeaseID
	claim  string         // its key
	stands []clientv3.Cmp // two
}

// stream is answered in the order of its requests.
type stream struct {
	pb.Lease_LeaseKeepAliveClient // nil at first
	ctx                           context.Context
	cancel                        context.CancelFunc
}

var errMixedUp = errors.New("renewals are answered in another order than that of the requests")

func newKeeper(client *clientv3.Client) *keeper {
	k := &keeper{client: client}
	k.calls = batch.New(k.renewMany, batch.UntilItLeaves)
	k.ctx, k.stop = context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	return k
}

func (k *keeper) close() {
	k.stop()
	k.calls.Close()
}

// renew prolongs a claim's lease by its TTL, from when the request arrives on, and then looks
// whether the claim stands. It returns ErrConflict if either is gone.
func (k *keeper) renew(ctx context.Context, r *prolongation) error {
	if err := k.calls.Do(ctx, r); err != nil {
		return err
	}
	return r.Err()
}

func (k *keeper) renewMany(ctx context.Context, all []*prolongation, _ bool) {
	var streams sync.WaitGroup
	for part := range slices.Chunk(all, perStream) {
		streams.Go(func() { k.prolong(ctx, part) })
	}
	streams.Wait()
	alive := slices.DeleteFunc(slices.Clone(all), func(r *prolongation) bool { return r.Err() != nil })
	for part := range slices.Chunk(alive, perLook) {
		k.look(ctx, part)
	}
}

// prolong sends KeepAlives over one stream. That of an idle one which has failed, as with its
// member, is repeated over another.
func (k *keeper) prolong(ctx context.Context, part []*prolongation) {
	for again := true; again; {
		s := k.take()
		again = s.Lease_LeaseKeepAliveClient != nil
		stop := context.AfterFunc(ctx, s.cancel)
		err := s.prolong(k.client, part)
		if k.put(s, stop() && err == nil); err == nil {
			return
		}
		if ended := ctx.Err(); ended != nil {
			again, err = false, ended
		}
		for _, r := range part {
			r.Fail(err)
		}
	}
}

func (s *stream) prolong(client *clientv3.Client, part []*prolongation) (err error) {
	if s.Lease_LeaseKeepAliveClient == nil {
		if s.Lease_LeaseKeepAliveClient, err = pb.NewLeaseClient(client.ActiveConnection()).LeaseKeepAlive(s.ctx); err != nil {
			return err
		}
	}
	for _, r := range part {
		if s.Send(&pb.LeaseKeepAliveRequest{ID: int64(r.lease)}) != nil {
			break // Recv says why
		}
	}
	for _, r := range part {
		answer, err := s.Recv()
		switch {
		case err != nil:
			return err
		case answer.ID != int64(r.lease):
			return errMixedUp
		case answer.TTL > 0:
			r.Fail(nil)
		default:
			r.Fail(providerkit.ErrConflict)
		}
	}
	return nil
}

// take is an idle stream, or a new one.
func (k *keeper) take() *stream {
	k.mu.Lock()
	defer k.mu.Unlock()
	if last := len(k.idle) - 1; last >= 0 {
		s := k.idle[last]
		k.idle = k.idle[:last]
		return s
	}
	s := &stream{}
	s.ctx, s.cancel = context.WithCancel(k.ctx)
	return s
}

// put keeps a stream for another use. One that has failed is no good, and those that are idle
// may be of the same member.
func (k *keeper) put(s *stream, good bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.idle = append(k.idle, s)
	for len(k.idle) > 0 && (!good || len(k.idle) > mostIdle) {
		k.idle[0].cancel()
		k.idle = k.idle[1:]
	}
}

// look fails those whose claim, or its record, is another than it was. It is a linearizable
// read, for it asks for a key.
func (k *keeper) look(ctx context.Context, all []*prolongation) {
	var stand []clientv3.Cmp
	for _, r := range all {
		stand = append(stand, r.stands...)
	}
	answer, err := k.client.Txn(ctx).If(stand...).Then(clientv3.OpGet(all[0].claim, clientv3.WithKeysOnly())).Commit()
	switch {
	case err == nil && answer.Succeeded:
		return
	case err == nil && len(all) > 1:
		k.look(ctx, all[:len(all)/2])
		k.look(ctx, all[len(all)/2:])
		return
	case err == nil:
		err = providerkit.ErrConflict
	}
	for _, r := range all {
		r.Fail(err)
	}
}
