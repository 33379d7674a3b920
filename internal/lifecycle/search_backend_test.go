package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/internal/lifecycle"
	"github.com/distributedleasing/leasing/internal/trust"
)

// grant is a grant by the backend.
type grant struct {
	id    string
	token int64
}

// claimSet is a set of claims, by process and number.
type claimSet [3]uint32

func (s *claimSet) add(id string)     { s[id[0]-'a'] |= 1 << (id[1] - 'A') }
func (s *claimSet) drop(id string)    { s[id[0]-'a'] &^= 1 << (id[1] - 'A') }
func (s claimSet) has(id string) bool { return id != "" && s[id[0]-'a']>>(id[1]-'A')&1 == 1 }

// past is the record as it was before the latest write.
type past struct {
	record   providerkit.Record
	deadline time.Duration
}

// backend is the backend's record of the name, with facts that only the search needs.
type backend struct {
	record   providerkit.Record
	deadline time.Duration
	requests int      // each takes a microsecond
	floor    int64    // the highest token that was forgotten
	setBack  bool     // the clock was set back by a quarter of an hour
	failed   bool     // the backend has failed over
	before   *past    // nil unless the backend may fail over
	data     []byte   // of a store
	version  int      // of data
	grants   []grant  // in order
	maxToken int64    // the highest token of a grant
	ended    claimSet // released or broken
	broken   claimSet // broken at once; the holder notices the break later
}

var epoch = time.Unix(1_700_000_000, 0)

// refresh updates the record to the current time.
func (w *world) refresh() {
	b := &w.backend
	b.record.Floor, b.record.Left = b.floor, b.deadline-w.time
	if b.deadline == trust.Forever {
		b.record.Left = abstractions.Infinite
	}
	if w.plan.clock {
		b.record.Now = epoch.Add(w.time + time.Duration(b.requests)*time.Microsecond)
		if b.setBack {
			b.record.Now = b.record.Now.Add(-15 * time.Minute)
		}
	}
}

// arrive makes the backend answer a request. If again is set, a copy of the request stays under way. If late is set, the
// caller has left when the answer arrives.
func (w *world) arrive(i int, again, late bool) {
	r := w.network[i]
	w.network = slices.Clone(w.network)
	if again {
		w.network[i].copied = true
		w.copies++
	} else {
		w.network = slices.Delete(w.network, i, i+1)
	}
	a := w.decideRequest(&r)
	p := &w.parties[r.from]
	switch {
	case r.kind == 'c':
		p.tried(&r, true)
	case p.awaited == r.kind && p.no == r.no && p.id == r.id && p.answer == nil:
		p.answer = a
	case late:
		p.cleanUp(p.life.RepliedLate(p.now(), a.Applied))
	}
}

// lose removes a request from the network.
func (w *world) lose(i int) {
	r := w.network[i]
	w.network = slices.Delete(slices.Clone(w.network), i, i+1)
	if r.kind == 'c' {
		w.parties[r.from].tried(&r, false)
	}
}

// repliesLate reports whether the answer to a request can come after its caller has left.
func (w *world) repliesLate(r *request) bool {
	p := &w.parties[r.from]
	return w.plan.late && !r.copied && (r.kind == 'a' || r.kind == 'n') && p.id == r.id && (p.awaited == 0 || p.no != r.no)
}

// decideRequest makes the backend decide on a request.
func (w *world) decideRequest(r *request) *lifecycle.Answer {
	b := &w.backend
	b.requests++
	w.refresh()
	before := grant{b.record.ID, b.record.Token}
	decide := w.decide
	if w.plan.store {
		decide = w.decideInStore
	}
	given, err := decide(r)
	b.record.Ended = slices.Clip(b.record.Ended) // states share the slice
	a := &lifecycle.Answer{Grant: given, Err: err, Applied: err == nil}
	_ = errors.As(err, &a.Lost)
	if after := (grant{b.record.ID, b.record.Token}); after != before && after.id == r.id && r.kind == 'a' {
		w.noteGrant(after)
	}
	if err == nil && (r.kind == 'r' || r.kind == 'c') {
		b.ended.add(r.id)
	}
	return a
}

// noteGrant notes a new holder.
func (w *world) noteGrant(to grant) {
	b := &w.backend
	if to.token <= b.maxToken {
		w.violation = fmt.Sprintf("claim %s is granted under token %d, and an earlier one was under %d", to.id, to.token, b.maxToken)
	}
	b.maxToken = max(b.maxToken, to.token)
	b.grants = append(slices.Clip(b.grants), to)
}

// grantOf returns the index of a claim's grant in the grants, or -1.
func (b *backend) grantOf(id string, token int64) int8 {
	for i, g := range slices.Backward(b.grants) {
		if g.id == id && g.token == token {
			return int8(i)
		}
	}
	return -1
}

// decide applies the rule of a request to the record.
func (w *world) decide(r *request) (abstractions.Grant, error) {
	b := &w.backend
	before := past{b.record, b.deadline}
	var c providerkit.Change
	switch r.kind {
	case 'a':
		c = b.record.Acquire(abstractions.AcquireRequest{ID: r.id, TTL: r.ttl})
	case 'n':
		c = b.record.Renew(abstractions.RenewRequest{ID: r.id, Token: r.token, TTL: r.ttl, Metadata: r.metadata})
	default:
		c = b.record.Release(abstractions.ReleaseRequest{ID: r.id})
	}
	w.storeDeadline(c)
	if w.plan.failover && c.Write {
		b.before = &before
	}
	return b.record.Grant(r.ttl), c.Err
}

// storeDeadline stores the deadline of a record that a rule has changed.
func (w *world) storeDeadline(c providerkit.Change) {
	if c.Deadline {
		w.backend.deadline = trust.AddSaturated(w.time, w.backend.record.Left)
	}
}

// breakLease makes the operator's break arrive.
func (w *world) breakLease(atOnce bool) {
	b := &w.backend
	b.requests++
	w.refresh()
	held, target := grant{b.record.ID, b.record.Token}, w.operator
	w.operator = 0
	result, c := b.record.Break(abstractions.BreakRequest{IfToken: target, Immediate: atOnce, Grace: tick})
	w.storeDeadline(c)
	b.record.Ended = slices.Clip(b.record.Ended)
	switch {
	case c.Err != nil || !result.WasHeld:
	case held.token != target:
		w.violation = fmt.Sprintf("the break of the lease with token %d hits the one with token %d", target, held.token)
	default:
		b.ended.add(held.id)
		if atOnce {
			b.broken.add(held.id)
		}
	}
}

// forgettable reports whether there is a record that may be forgotten.
func (w *world) forgettable() bool {
	w.refresh()
	r := &w.backend.record
	return (r.Token > 0 || len(r.Ended) > 0) && r.Forgettable(w.plan.retention)
}

// forget deletes the record. A broken claim whose acquire is still under way may then be granted.
func (w *world) forget() {
	b := &w.backend
	b.floor, b.record = max(b.floor, b.record.Token), providerkit.Record{}
	for i := range w.parties {
		if p := &w.parties[i]; p.id != "" && p.life.Phase() == lifecycle.Claiming {
			b.ended.drop(p.id)
		}
	}
}

// failOver restores the record as it was before the latest write.
func (w *world) failOver() {
	b := &w.backend
	b.record, b.deadline, b.before, b.failed = b.before.record, b.before.deadline, nil, true
}

// readRecord reads the record for a request that is decided later.
func (w *world) readRecord(i int) {
	w.network = slices.Clone(w.network)
	w.refresh()
	item := w.item()
	w.network[i].read = &item
}

const name = "name"

// item returns the stored item. Its State is the time left on the lease.
func (w *world) item() cas.Item {
	item := cas.Item{Key: name, Data: w.backend.data, State: w.backend.record.Left}
	if w.backend.version > 0 {
		item.Version = strconv.Itoa(w.backend.version)
	}
	return item
}

// decideInStore makes cas.Records decide on a request. A request that has already read the record uses that earlier read. The
// write happens now.
func (w *world) decideInStore(r *request) (given abstractions.Grant, err error) {
	s := &store{w: w, read: r.read}
	records := &cas.Records{Store: s, Leases: s, Key: func(name string) string { return name }, ManualSweep: true}
	ctx := context.Background()
	switch r.kind {
	case 'a':
		return records.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: r.id, TTL: r.ttl})
	case 'n':
		return records.Renew(ctx, abstractions.RenewRequest{Name: name, ID: r.id, Token: r.token, TTL: r.ttl, Metadata: r.metadata})
	default:
		return given, records.Release(ctx, abstractions.ReleaseRequest{Name: name, ID: r.id})
	}
}

// store is a service with conditional writes and with leases, which end without a request.
type store struct {
	cas.Store
	w    *world
	read *cas.Item // the answer to the first Get; nil for the current item
	put  bool
}

func (s *store) Get(context.Context, string) (cas.Item, error) {
	if item := s.read; item != nil {
		s.read = nil
		return *item, nil
	}
	return s.w.item(), nil
}

func (s *store) Put(_ context.Context, old cas.Item, r *providerkit.Record, data []byte) (cas.Item, error) {
	if old.Version != s.w.item().Version {
		return old, cas.ErrConflict
	}
	b := &s.w.backend
	b.record, b.data, s.put = r.Clone(), data, true
	b.version++
	return s.w.item(), nil
}

func (s *store) Complete(item cas.Item, r *providerkit.Record) bool {
	r.Left, _ = item.State.(time.Duration)
	return false
}

func (s *store) Reconcile(_ context.Context, item cas.Item, r *providerkit.Record) (cas.Item, error) {
	b := &s.w.backend
	if item.Version != s.w.item().Version || !s.put && b.deadline <= s.w.time {
		return item, cas.ErrConflict
	}
	b.record.TTL, b.deadline = r.TTL, trust.AddSaturated(s.w.time, r.Left)
	return item, nil
}
