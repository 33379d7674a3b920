package etcdlease

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// keeper prolongs leases, over one stream for all of them: with a password etcd checks it
// for each new stream, by bcrypt. The client's own KeepAliveOnce makes a stream for each
// call, and repeats it without a pause where that fails.
type keeper struct {
	client  *clientv3.Client
	ctx     context.Context // of all streams
	stop    context.CancelFunc
	reading sync.WaitGroup

	mu     sync.Mutex
	stream *stream // nil at first
}

// stream is answered in the order of its requests. Its fields are guarded by keeper.mu.
type stream struct {
	pb.Lease_LeaseKeepAliveClient
	cancel  context.CancelFunc
	waiting []request // for its answer, each
	heard   time.Time // when the latest came
	err     error     // why it has ended
}

type request struct {
	lease  clientv3.LeaseID
	answer chan error
}

var errMixedUp = errors.New("renewals are answered in another order than that of the requests")

func newKeeper(client *clientv3.Client) *keeper {
	k := &keeper{client: client}
	k.ctx, k.stop = context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	return k
}

// alive prolongs a lease by its TTL, from when the request arrives on. It returns
// ErrConflict if there is no such lease. A stream that was silent for a second when a call
// ended is given up, for another member may answer.
func (k *keeper) alive(ctx context.Context, lease clientv3.LeaseID) error {
	answer, sent := make(chan error, 1), time.Now()
	s, err := k.send(ctx, lease, answer)
	if err != nil {
		return err
	}
	select {
	case err = <-answer:
		return err
	case <-ctx.Done():
		k.mu.Lock()
		defer k.mu.Unlock()
		if time.Since(sent) >= patience && s.heard.Before(sent) {
			s.cancel()
		}
		return ctx.Err()
	}
}

func (k *keeper) send(ctx context.Context, lease clientv3.LeaseID, answer chan error) (s *stream, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s = k.stream; s == nil || s.err != nil {
		if s, err = k.open(ctx); err != nil {
			return nil, err
		}
		k.stream = s
		k.reading.Go(func() { k.read(s) })
	}
	limit := time.AfterFunc(patience, s.cancel) // a member that hangs may block it
	defer limit.Stop()
	if s.err = s.Send(&pb.LeaseKeepAliveRequest{ID: int64(lease)}); s.err != nil {
		s.cancel()
		return nil, s.err
	}
	s.waiting = append(s.waiting, request{lease, answer})
	return s, nil
}

func (k *keeper) open(ctx context.Context) (*stream, error) {
	own, cancel := context.WithCancel(k.ctx)
	stop := context.AfterFunc(ctx, cancel)
	opened, err := pb.NewLeaseClient(k.client.ActiveConnection()).LeaseKeepAlive(own)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &stream{Lease_LeaseKeepAliveClient: opened, cancel: cancel}, nil
}

// read hands out answers until the stream ends.
func (k *keeper) read(s *stream) {
	defer s.cancel()
	for {
		answer, err := s.Recv()
		k.mu.Lock()
		waiting := s.waiting
		switch s.heard = time.Now(); {
		case err != nil:
			s.err = err
		case len(waiting) == 0 || answer.ID != int64(waiting[0].lease):
			answer, err, s.err = nil, errMixedUp, errMixedUp
		case answer.TTL <= 0:
			waiting, s.waiting, err = waiting[:1], waiting[1:], providerkit.ErrConflict
		default:
			waiting, s.waiting = waiting[:1], waiting[1:]
		}
		k.mu.Unlock()
		for _, waiter := range waiting {
			waiter.answer <- err
		}
		if answer == nil {
			return
		}
	}
}
