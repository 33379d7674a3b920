package etcdlease

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// store implements cas.Store and cas.Leases over the keys under a prefix.
type store struct {
	client     *clientv3.Client
	keeper     *keeper
	prefix     string
	freeLeases chan keyState // released claims, whose leases other claims may use
	revoking   providerkit.Group
}

// records, claims and floors follow Options.Prefix in the keys of the three kinds of entry. Names with the same hash share a floor.
const records, claims, floors = "n/", "c/", "f/"

func (s *store) key(name string) string { return s.prefix + records + name }

// claimKey returns the key of the claim that belongs to a record.
func (s *store) claimKey(key string) string {
	return s.prefix + claims + strings.TrimPrefix(key, s.prefix+records)
}

// floorKey returns the key of the highest forgotten token. There are 256 floors, so a sweep rarely conflicts with a new name.
func (s *store) floorKey(key string) string {
	return fmt.Sprintf("%s%s%02x", s.prefix, floors, byte(crc32.ChecksumIEEE([]byte(key))))
}

func floorText(floor int64) string { return strconv.FormatInt(floor, 10) }

// keyState is the state of a name in a read, without the data. Revisions are those of the keys' last changes, or 0 for a missing key.
type keyState struct {
	record, claim, floorRev int64
	holder                  string // the claim's value
	lease                   clientv3.LeaseID
	at                      time.Time // just before this process last prolonged the lease; zero if it has not
	ours                    bool      // the claim belongs to the record
	fresh                   bool      // the lease was granted for the write that made this state
	term                    uint64    // the Raft term of the prolongation, if the lease is reused
	floor                   int64
}

// item returns the data of a record, with its state and the time of the read.
func (v *keyState) item(key string, data []byte, now time.Time) cas.Item {
	i := cas.Item{Key: key, Data: data, Now: now, State: v}
	if v.record > 0 {
		i.Version = strconv.FormatInt(v.record, 10)
	}
	return i
}

// newKeyState returns the state of a record and a claim.
func newKeyState(record, claim *mvccpb.KeyValue) *keyState {
	return &keyState{record: record.ModRevision, claim: claim.ModRevision, holder: string(claim.Value), lease: clientv3.LeaseID(claim.Lease)}
}

// Get reads a record with its claim and floor, at one revision.
func (s *store) Get(ctx context.Context, key string) (cas.Item, error) {
	answer, err := txn(ctx, s.client, nil, clientv3.OpGet(key), clientv3.OpGet(s.claimKey(key)), clientv3.OpGet(s.floorKey(key)))
	if err != nil {
		return cas.Item{}, err
	}
	first := func(i int) *mvccpb.KeyValue { return append(kvs(answer, i), &mvccpb.KeyValue{})[0] }
	v, floor := newKeyState(first(0), first(1)), first(2)
	if v.floorRev = floor.ModRevision; v.floorRev > 0 {
		if v.floor, err = strconv.ParseInt(string(floor.Value), 10, 64); err != nil || floorText(v.floor) != string(floor.Value) {
			err = fmt.Errorf("%w: the content of %q is not a token", abstractions.ErrNotSetUp, floor.Key)
		}
	}
	return v.item(key, first(0).Value, time.Now().UTC()), err
}

func kvs(answer *clientv3.TxnResponse, i int) []*mvccpb.KeyValue {
	return answer.Responses[i].GetResponseRange().GetKvs()
}

func sameRevision(key string, rev int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", rev)
}

// unchangedSince returns the conditions that hold if a key is unchanged since its read. Revision 0 means that the key was missing. The
// revision alone proves nothing: a restored snapshot, or a new cluster, assigns the same revisions to other writes.
func unchangedSince(key string, rev int64, value string) []clientv3.Cmp {
	if rev == 0 {
		return []clientv3.Cmp{sameRevision(key, 0)}
	}
	return []clientv3.Cmp{sameRevision(key, rev), clientv3.Compare(clientv3.Value(key), "=", value)}
}

// txn applies the operations if the conditions hold.
func txn(ctx context.Context, client *clientv3.Client, conditions []clientv3.Cmp, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	return retryOnLearner(ctx, client, func() (*clientv3.TxnResponse, error) { return client.Txn(ctx).If(conditions...).Then(ops...).Commit() })
}

// commit writes if the conditions hold, and otherwise returns ErrConflict.
func (s *store) commit(ctx context.Context, conditions []clientv3.Cmp, writes ...clientv3.Op) (*pb.ResponseHeader, error) {
	answer, err := txn(ctx, s.client, conditions, writes...)
	switch {
	case err != nil:
		return nil, err
	case !answer.Succeeded:
		return nil, cas.ErrConflict
	}
	return answer.Header, nil
}

// Put writes a record and its claim in one transaction, if both are unchanged since their read. A new holder or TTL gets a new lease.
func (s *store) Put(ctx context.Context, old cas.Item, r *providerkit.Record, data []byte) (_ cas.Item, err error) {
	v, claim := *old.State.(*keyState), s.claimKey(old.Key)
	conditions := append(unchangedSince(old.Key, v.record, string(old.Data)), unchangedSince(claim, v.claim, v.holder)...)
	if v.record == 0 { // the record may have been forgotten since the read
		conditions = append(conditions, unchangedSince(s.floorKey(old.Key), v.floorRev, floorText(v.floor))...)
	}
	writes := []clientv3.Op{clientv3.OpPut(old.Key, string(data))}
	before := v
	v.fresh = false
	switch held := r.ID != "" && r.Left > 0; {
	case held && v.holder != claimOf(r):
		v.at = time.Now()
		if v.lease, v.term, err = s.grant(ctx, v, r); err != nil {
			return cas.Item{}, err
		}
		writes = append(writes, clientv3.OpPut(claim, claimOf(r), clientv3.WithLease(v.lease)))
		v.holder, v.ours, v.fresh = claimOf(r), true, true
	case !held && v.ours:
		writes = append(writes, clientv3.OpDelete(claim))
		v.claim, v.holder, v.lease, v.ours = 0, "", 0, false
	}
	header, err := s.commit(ctx, conditions, writes...)
	v.record = header.GetRevision()
	switch {
	case err == nil && v.lease != before.lease:
		s.recycleLease(before, v.lease == clientv3.NoLease && !before.at.IsZero())
	case errors.Is(err, cas.ErrConflict) && v.lease != before.lease:
		s.recycleLease(v, false)
	}
	if v.fresh {
		v.claim = v.record
		v.fresh = v.term == 0 || header.GetRaftTerm() <= v.term // see errFormerLeader: Reconcile prolongs the lease
	}
	return v.item(old.Key, data, old.Now), err
}

// Delete deletes a record that has no claim. It also writes the floor, so that earlier requests that
// have found no record fail.
func (s *store) Delete(ctx context.Context, item cas.Item) error {
	var forgotten struct{ Token int64 }
	if err := json.Unmarshal(item.Data, &forgotten); err != nil {
		return err
	}
	now, err := s.Get(ctx, item.Key)
	if err != nil {
		return err
	}
	v, floor := now.State.(*keyState), s.floorKey(item.Key)
	conditions := slices.Concat(unchangedSince(item.Key, item.State.(*keyState).record, string(item.Data)), unchangedSince(s.claimKey(item.Key), 0, ""), unchangedSince(floor, v.floorRev, floorText(v.floor)))
	_, err = s.commit(ctx, conditions, clientv3.OpDelete(item.Key), clientv3.OpPut(floor, floorText(max(v.floor, forgotten.Token))))
	return err
}

// List reads a page of records and their claims, at one revision. Each claim has a record, so the first q.Limit claims include all
// claims of the records on the page.
func (s *store) List(ctx context.Context, q cas.ListQuery) (items []cas.Item, next string, err error) {
	all := s.key(q.Prefix)
	first := max(all, q.After+"\x00")
	page := func(all, first string) clientv3.Op {
		return clientv3.OpGet(first, clientv3.WithRange(clientv3.GetPrefixRangeEnd(all)), clientv3.WithLimit(int64(q.Limit)))
	}
	answer, err := txn(ctx, s.client, nil, page(all, first), page(s.claimKey(all), s.claimKey(first)))
	if err != nil {
		return nil, "", err
	}
	held := map[string]*mvccpb.KeyValue{}
	for _, claim := range kvs(answer, 1) {
		held[string(claim.Key)] = claim
	}
	now := time.Now().UTC()
	for _, kv := range kvs(answer, 0) {
		key := string(kv.Key)
		items = append(items, newKeyState(kv, cmp.Or(held[s.claimKey(key)], &mvccpb.KeyValue{})).item(key, kv.Value, now))
	}
	if answer.Responses[0].GetResponseRange().GetMore() {
		next = items[len(items)-1].Key
	}
	return items, next, nil
}

// seconds converts a TTL to etcd's unit, rounded up; 0 means infinite.
func seconds(ttl time.Duration) int64 {
	if ttl == abstractions.Infinite {
		return 0
	}
	return int64((ttl + time.Second - 1) / time.Second)
}

// claimOf returns the value of a claim's key: ID, token and TTL. The same value never
// belongs to another claim, or to another grant of the same claim.
func claimOf(r *providerkit.Record) string {
	if r.Breaking {
		return fmt.Sprint(r.ID, " ", r.Token, " breaking")
	}
	return fmt.Sprint(r.ID, " ", r.Token, " ", seconds(r.TTL))
}

// grant returns a lease for a claim. An infinite claim has no lease. A broken claim keeps its own lease, because a new lease
// could end while the holder still trusts a renewal that was granted during the break. TimeToLive does not reliably return the
// remaining time: a member that wrongly takes itself for the leader may answer.
func (s *store) grant(ctx context.Context, v keyState, r *providerkit.Record) (id clientv3.LeaseID, term uint64, err error) {
	if r.Breaking && v.lease != clientv3.NoLease {
		return v.lease, 0, nil
	}
	if r.Left == abstractions.Infinite {
		return clientv3.NoLease, 0, nil
	}
	ttl := max(1, seconds(r.Left))
	select {
	case free := <-s.freeLeases:
		renewed := &renewal{lease: free.lease}
		age := max(time.Since(free.at), time.Since(free.at.Round(0))) // Go's monotonic clock stops while the host is suspended, unlike the wall clock
		if strings.HasSuffix(free.holder, fmt.Sprint(" ", ttl)) && age < time.Duration(ttl)*time.Second/2 {
			if s.keeper.keepAlive(ctx, []*renewal{renewed}); renewed.Err() == nil {
				return renewed.lease, renewed.term, nil
			}
		}
		s.recycleLease(free, false)
	default:
	}
	answer, err := retryOnLearner(ctx, s.client, func() (*clientv3.LeaseGrantResponse, error) { return s.client.Grant(ctx, ttl) })
	if err != nil {
		return 0, 0, err
	}
	return answer.ID, 0, nil
}

// recycleLease keeps the lease of an ended claim for another claim, or revokes the lease in the background. grant reuses a lease
// only within half of its TTL after its last prolongation: until then no leader, not even a former leader, has a reason to revoke
// the lease.
func (s *store) recycleLease(v keyState, reusable bool) {
	if reusable {
		select {
		case s.freeLeases <- v:
			return
		default:
		}
	}
	if v.lease != clientv3.NoLease {
		s.revoking.Go(func() error {
			ctx, cancel := context.WithTimeout(s.keeper.ctx, time.Second)
			defer cancel()
			_, err := retryOnLearner(ctx, s.client, func() (*clientv3.LeaseRevokeResponse, error) { return s.client.Revoke(ctx, v.lease) })
			return err
		}, nil)
	}
}

// Complete compares a record with the claim's key: the record's holder has the name while the key exists. If
// the key belongs to another claim, that claim may still trust its lease, and its record was deleted or changed by hand.
func (s *store) Complete(item cas.Item, r *providerkit.Record) (behind bool) {
	v := item.State.(*keyState)
	r.Floor = max(r.Floor, v.floor)
	v.ours = r.ID != "" && v.holder == claimOf(r)
	switch {
	case v.claim == 0:
		r.Left = min(0, r.AcquiredAt.Sub(r.Now)) // the claim ended after its acquire
	case !v.ours:
		r.ID, r.Unconfirmed, r.Left, r.Slack = "", true, abstractions.Infinite, abstractions.Infinite
	case r.Left != abstractions.Infinite:
		r.Slack = abstractions.Infinite // the remaining time may be the whole TTL, or nothing
	}
	return false
}

// Reconcile prolongs a claim's lease, and then checks that the claim is unchanged: etcd may prolong a lease whose keys it has
// deleted, and an operator may have deleted or replaced the keys. A lease that Put has just granted needs no prolongation.
func (s *store) Reconcile(ctx context.Context, item cas.Item, r *providerkit.Record) (cas.Item, error) {
	v := *item.State.(*keyState)
	item.State = &v
	if r.ID == "" || r.Breaking || v.fresh {
		v.fresh = false
		return item, nil
	}
	v.at = time.Now()
	renewed := &renewal{lease: v.lease, conditions: []clientv3.Cmp{
		clientv3.Compare(clientv3.Value(s.claimKey(item.Key)), "=", v.holder), sameRevision(item.Key, v.record),
	}}
	if v.lease == clientv3.NoLease {
		s.keeper.check(ctx, []*renewal{renewed})
	} else if err := s.keeper.calls.Do(ctx, renewed); err != nil {
		return item, err
	}
	return item, renewed.Err()
}
