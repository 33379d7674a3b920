package etcdlease

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// seconds is a TTL as etcd counts it, rounded up; 0 for ever.
func seconds(ttl time.Duration) int64 {
	if ttl == abstractions.Infinite {
		return 0
	}
	return int64((ttl + time.Second - 1) / time.Second)
}

// claimOf is what the key of a holder's claim has: another value, another lease.
func claimOf(r *providerkit.Record) string {
	if r.Breaking {
		return r.ID + " breaking"
	}
	return r.ID + " " + strconv.FormatInt(seconds(r.TTL), 10)
}

// grant makes a lease for a claim. One that is broken gets the time that its holder's has left, which nobody prolongs. One
// that never ends has no lease.
func (s *store) grant(ctx context.Context, v view, r *providerkit.Record) (clientv3.LeaseID, error) {
	if r.Breaking && v.lease != 0 {
		answer, err := s.client.TimeToLive(ctx, v.lease)
		if errors.Is(err, rpctypes.ErrLeaseNotFound) || err == nil && answer.TTL < 0 { // it has just ended
			err = providerkit.ErrConflict
		}
		if err != nil {
			return 0, err
		}
		r.Left = time.Duration(answer.TTL+1) * time.Second // it is rounded down
	}
	if r.Left == abstractions.Infinite {
		return clientv3.NoLease, nil
	}
	answer, err := s.client.Grant(ctx, max(1, seconds(r.Left)))
	if err != nil {
		return 0, err
	}
	return answer.ID, nil
}

// revoke ends a lease without a claim, meanwhile. Otherwise it ends by itself.
func (s *store) revoke(lease clientv3.LeaseID) {
	if lease == clientv3.NoLease {
		return
	}
	s.revoking.Go(func() {
		ctx, cancel := context.WithTimeout(s.keep.ctx, time.Second)
		defer cancel()
		_, _ = s.client.Revoke(ctx, lease)
	})
}

// Judge says what the claim's key makes of a record: the record's holder has the name while the key is there. One that is not
// the record's is somebody's who has trust in it, whose record was deleted or changed by hand.
func (s *store) Judge(item providerkit.Item, r *providerkit.Record) (behind bool) {
	v := item.State.(*view)
	r.Floor = max(r.Floor, v.floor)
	v.ours = r.ID != "" && v.holder == claimOf(r)
	switch {
	case v.claim == 0:
		r.Left = min(0, r.AcquiredAt.Sub(r.Now)) // it ended after that
	case !v.ours:
		r.ID, r.Unconfirmed, r.Left, r.Slack = "", true, abstractions.Infinite, abstractions.Infinite
	case r.Left != abstractions.Infinite:
		r.Slack = abstractions.Infinite // it may be the whole TTL, or nothing
	}
	return false
}

// Follow prolongs a claim's lease, and then looks whether the claim still stands: etcd may prolong a lease whose keys it has
// deleted, and somebody may have deleted or replaced them. All else Put has done.
func (s *store) Follow(ctx context.Context, item providerkit.Item, r *providerkit.Record) (providerkit.Item, error) {
	v := *item.State.(*view)
	item.State = &v
	if r.ID == "" || r.Breaking || v.fresh {
		v.fresh = false
		return item, nil
	}
	claim := s.claimKey(item.Key)
	renewed := &prolongation{lease: v.lease, claim: claim, stands: []clientv3.Cmp{unchanged(item.Key, v.record), unchanged(claim, v.claim)}}
	if v.lease == clientv3.NoLease {
		s.keep.look(ctx, []*prolongation{renewed})
		return item, renewed.Err()
	}
	return item, s.keep.renew(ctx, renewed)
}
