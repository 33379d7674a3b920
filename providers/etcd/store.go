package etcdlease

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// store is what stands under a prefix, as a providerkit.Store and providerkit.Leases. The
// version of an item is its key's ModRevision.
type store struct {
	client *clientv3.Client
	keep   *keeper
	prefix string
}

// The keys of a name, under the prefix. The last is shared by the names of one hash.
const (
	records = "n/"
	claims  = "c/"
	floors  = "f/"
)

func (s *store) key(name string) string { return s.prefix + records + name }

// claimKey is that of the claim which belongs to a record.
func (s *store) claimKey(key string) string {
	return s.prefix + claims + strings.TrimPrefix(key, s.prefix+records)
}

// floorKey is that of the highest token which was forgotten. There are 256, so that a
// sweep is seldom in the way of a new name.
func (s *store) floorKey(key string) string {
	return fmt.Sprintf("%s%s%02x", s.prefix, floors, byte(crc32.ChecksumIEEE([]byte(key))))
}

// view is what a read shows beside the record.
type view struct {
	claim    int64  // the ModRevision of the claim's key; 0 if there is none
	holder   string // its value
	lease    clientv3.LeaseID
	ours     bool // the claim is the record's
	fresh    bool // its lease was granted, or prolonged, by the write that has made this view
	floor    int64
	floorRev int64
}

func (v *view) see(claim *mvccpb.KeyValue) {
	v.claim, v.holder, v.lease = claim.ModRevision, string(claim.Value), clientv3.LeaseID(claim.Lease)
}

// Get reads a record with its claim and floor, at one revision.
func (s *store) Get(ctx context.Context, key string) (providerkit.Item, error) {
	answer, err := s.client.Txn(ctx).Then(
		clientv3.OpGet(key), clientv3.OpGet(s.claimKey(key)), clientv3.OpGet(s.floorKey(key)),
	).Commit()
	if err != nil {
		return providerkit.Item{}, err
	}
	v := &view{}
	item := providerkit.Item{Key: key, State: v, Now: time.Now().UTC()}
	if found := kvs(answer, 0); len(found) > 0 {
		item.Data, item.Version = found[0].Value, version(found[0].ModRevision)
	}
	if found := kvs(answer, 1); len(found) > 0 {
		v.see(found[0])
	}
	if found := kvs(answer, 2); len(found) > 0 {
		v.floorRev = found[0].ModRevision
		v.floor, err = strconv.ParseInt(string(found[0].Value), 10, 64)
		if err != nil {
			return item, fmt.Errorf("%w: what is stored as %q is no token", abstractions.ErrNotSetUp, s.floorKey(key))
		}
	}
	return item, nil
}

func kvs(answer *clientv3.TxnResponse, i int) []*mvccpb.KeyValue {
	return answer.Responses[i].GetResponseRange().GetKvs()
}

func version(revision int64) string { return strconv.FormatInt(revision, 10) }

func revision(version string) int64 {
	n, _ := strconv.ParseInt(version, 10, 64) // 0 is of a key that is not there
	return n
}

func unchanged(key string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", revision)
}

// Put writes a record and its claim at once, if both are still what was read. The claim of
// a new holder, or for another TTL, gets a lease that nobody had before: so no copy of an
// earlier request prolongs or revokes it.
func (s *store) Put(ctx context.Context, old providerkit.Item, r *providerkit.Record, data []byte) (providerkit.Item, error) {
	v, claim := *old.State.(*view), s.claimKey(old.Key)
	conditions := []clientv3.Cmp{unchanged(old.Key, revision(old.Version)), unchanged(claim, v.claim)}
	if old.Version == "" { // it may have been forgotten meanwhile
		conditions = append(conditions, unchanged(s.floorKey(old.Key), v.floorRev))
	}
	writes := []clientv3.Op{clientv3.OpPut(old.Key, string(data))}
	before := v.lease
	v.fresh = false
	switch held := r.ID != "" && r.Left > 0; {
	case held && v.holder != claimOf(r):
		lease, err := s.grant(ctx, v, r)
		if err != nil {
			return providerkit.Item{}, err
		}
		writes = append(writes, clientv3.OpPut(claim, claimOf(r), clientv3.WithLease(lease)))
		v.holder, v.lease, v.ours, v.fresh = claimOf(r), lease, true, true
	case !held && v.ours:
		writes = append(writes, clientv3.OpDelete(claim))
		v.claim, v.holder, v.lease, v.ours = 0, "", 0, false
	}
	answer, err := s.client.Txn(ctx).If(conditions...).Then(writes...).Commit()
	switch {
	case err != nil:
		return providerkit.Item{}, err
	case !answer.Succeeded:
		if v.fresh {
			s.revoke(ctx, v.lease)
		}
		return providerkit.Item{}, providerkit.ErrConflict
	}
	if v.fresh {
		v.claim = answer.Header.Revision
	}
	if before != v.lease {
		s.revoke(ctx, before)
	}
	return providerkit.Item{Key: old.Key, Data: data, Version: version(answer.Header.Revision), Now: old.Now, State: &v}, nil
}

// Delete deletes a record without a claim. The write of the floor refuses every request
// that has read before that there is no record.
func (s *store) Delete(ctx context.Context, item providerkit.Item) error {
	var forgotten struct{ Token int64 }
	if err := json.Unmarshal(item.Data, &forgotten); err != nil {
		return err
	}
	now, err := s.Get(ctx, item.Key)
	if err != nil {
		return err
	}
	v := now.State.(*view)
	if v.claim != 0 || now.Version != item.Version {
		return providerkit.ErrConflict
	}
	floor := s.floorKey(item.Key)
	answer, err := s.client.Txn(ctx).If(
		unchanged(item.Key, revision(item.Version)), unchanged(s.claimKey(item.Key), 0), unchanged(floor, v.floorRev),
	).Then(
		clientv3.OpDelete(item.Key), clientv3.OpPut(floor, strconv.FormatInt(max(v.floor, forgotten.Token), 10)),
	).Commit()
	if err == nil && !answer.Succeeded {
		err = providerkit.ErrConflict
	}
	return err
}

// List reads a page of records and their claims, at one revision. Each claim has a record,
// so the first claims are all that the page needs.
func (s *store) List(ctx context.Context, q providerkit.ListQuery) (items []providerkit.Item, next string, err error) {
	first := s.key(q.Prefix)
	if q.After != "" {
		first = max(first, q.After+"\x00")
	}
	page := func(key string, first string) clientv3.Op {
		return clientv3.OpGet(first, clientv3.WithRange(clientv3.GetPrefixRangeEnd(key)), clientv3.WithLimit(int64(q.Limit)))
	}
	answer, err := s.client.Txn(ctx).Then(page(s.key(q.Prefix), first), page(s.claimKey(s.key(q.Prefix)), s.claimKey(first))).Commit()
	if err != nil {
		return nil, "", err
	}
	held := map[string]*mvccpb.KeyValue{}
	for _, claim := range kvs(answer, 1) {
		held[string(claim.Key)] = claim
	}
	now := time.Now().UTC()
	for _, kv := range kvs(answer, 0) {
		v := &view{}
		if claim := held[s.claimKey(string(kv.Key))]; claim != nil {
			v.see(claim)
		}
		items = append(items, providerkit.Item{Key: string(kv.Key), Data: kv.Value, Version: version(kv.ModRevision), Now: now, State: v})
	}
	if answer.Responses[0].GetResponseRange().GetMore() {
		next = items[len(items)-1].Key
	}
	return items, next, nil
}
