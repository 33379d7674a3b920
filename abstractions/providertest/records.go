package providertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// recordsChecks are about the promises that cas.Records requires of a store.
var recordsChecks = []suite.Check{
	{Name: "Records_AWriteReplacesWhatItHasRead", Needs: "Records", Run: func(e *suite.Env) {
		s := newBackingStore(e)
		name := e.Name()
		unseen := s.get(name)
		e.Empty(unseen.Version)
		holder := e.Take(name)
		s.checkNotReplaced(unseen, holder)
		early := s.get(name)
		req := holder.RenewRequest(e.Long)
		req.Metadata = map[string]string{"region": "north"}
		e.NoError(suite.Second(suite.Send(e, e.P.Renew, req)))
		s.checkNotReplaced(early, holder)
		e.Equal(req.Metadata, e.Inspect(name).Metadata)
		holder.Renew(e.Long)
	}},
	// The check makes two deletions arrive late: one when the name is in use again, and one when a new record has
	// replaced the deleted record.
	{Name: "Trap_T28_ADelayedDeletionMeetsNothingNew", Needs: "Records", Run: func(e *suite.Env) {
		s := newBackingStore(e)
		idle := e.Take(e.Name())
		name := idle.Req.Name
		idle.Release()
		free := s.get(name)
		next := e.Take(name)
		err := s.delete(free)
		if errors.Is(err, abstractions.ErrUnsupported) {
			e.LeaveOut("this store deletes nothing")
		}
		e.ErrorIs(err, cas.ErrConflict)
		next.IsHeld()
		next.Release()
		free = s.get(name)
		e.NoError(s.delete(free))
		last := e.TakeWithRetry(e.P, name)
		e.Greater(last.Token(), next.Token())
		e.ErrorIs(s.delete(free), cas.ErrConflict)
		s.checkNotReplaced(free, last)
	}},
	// The check writes tokens into the record of a free name, as an operator may do by hand.
	{Name: "Trap_T128_NoTokenFollowsTheLast", Needs: "Records", Run: func(e *suite.Env) {
		s := newBackingStore(e)
		idle := e.Take(e.Name())
		name := idle.Req.Name
		idle.Release()
		s.setToken(name, abstractions.MaxToken-1)
		last := e.TakeWithRetry(e.P, name)
		e.EqualValues(abstractions.MaxToken, last.Token())
		last.Release()
		for _, token := range []int64{abstractions.MaxToken, abstractions.MaxToken + 1, math.MaxInt64} {
			s.setToken(name, token)
			for range 2 {
				_, err := e.Try(e.P, e.Request(name))
				e.ErrorIs(err, abstractions.ErrNotSetUp, "token %d", token)
				e.True(abstractions.NotApplied(err), "%v", err)
				e.Contains(fmt.Sprint(err), fmt.Sprint(token), "the message names the token")
			}
		}
	}},
	// Each verb reads the record of a later release, a damaged record, and content of another application.
	{Name: "Trap_T254_ARecordThatCannotBeReadIsRefusedAndKept", Needs: "Records", Run: func(e *suite.Env) {
		s := newBackingStore(e)
		for what, change := range unreadable {
			holder := e.Take(e.Name())
			old := s.get(holder.Req.Name)
			if err := s.put(old, holder, change(old.Data)); err != nil {
				e.Equal(string(old.Data), s.content(holder.Req.Name), "%s: the store takes no such content", what)
				continue
			}
			s.checkUnreadable(holder, what)
		}
	}},
	{Name: "Trap_T14_AWriteWhoseReplyIsLostIsLookedFor", Needs: "Records", Run: func(e *suite.Env) {
		records := e.Records(e.P)
		if records.Leases != nil {
			e.LeaveOut("a write does not say what has become of the backend's own lease")
		}
		records.Store = lostReplies{records.Store}
		holder := e.Take(e.Name())
		holder.Renew(e.Long)
		holder.IsHeld()
		holder.Release()
		e.IsFree(holder.Req.Name)
	}},
}

// lostReplies is a store whose replies to writes are lost.
type lostReplies struct{ cas.Store }

func (m lostReplies) Put(ctx context.Context, old cas.Item, r *providerkit.Record, data []byte) (cas.Item, error) {
	if _, err := m.Store.Put(ctx, old, r, data); err != nil {
		return cas.Item{}, err
	}
	return cas.Item{}, fmt.Errorf("%w: the reply is lost", abstractions.ErrUnavailable)
}

// backingStore is the store behind the client.
type backingStore struct {
	e *suite.Env
	*cas.Records
}

func newBackingStore(e *suite.Env) backingStore { return backingStore{e, e.Records(e.P)} }

func (s backingStore) get(name string) (item cas.Item) {
	s.e.NoError(s.e.Call(func(ctx context.Context) (err error) {
		item, err = s.Store.Get(ctx, s.Key(name))
		return err
	}))
	item.Key = s.Key(name)
	return item
}

func (s backingStore) delete(item cas.Item) error {
	return s.e.Call(func(ctx context.Context) error { return s.Store.Delete(ctx, item) })
}

// setToken replaces the stored token of a free name.
func (s backingStore) setToken(name string, token int64) {
	item := s.get(name)
	var fields map[string]json.RawMessage
	s.e.NoError(json.Unmarshal(item.Data, &fields))
	fields["token"] = json.RawMessage(strconv.FormatInt(token, 10))
	data, err := json.Marshal(fields)
	s.e.NoError(err)
	s.e.NoError(s.e.Call(func(ctx context.Context) error {
		_, err := s.Store.Put(ctx, item, &providerkit.Record{Name: name, Token: token, Now: item.Now}, data)
		return err
	}))
}

// unreadable makes records that this release must not touch.
var unreadable = map[string]func(record []byte) []byte{
	"a later version": func(record []byte) []byte { return bytes.Replace(record, []byte(`"v":1`), []byte(`"v":2`), 1) },
	"no version":      func(record []byte) []byte { return bytes.Replace(record, []byte(`"v":1`), []byte(`"x":1`), 1) },
	"another name":    func(record []byte) []byte { return bytes.Replace(record, []byte(`"name":"`), []byte(`"name":"x`), 1) },
	"a token of text": func(record []byte) []byte {
		return bytes.Replace(record, []byte(`"token":`), []byte(`"token":"x","was":`), 1)
	},
	"cut off":           func(record []byte) []byte { return record[:len(record)/2] },
	"an empty object":   func([]byte) []byte { return []byte(`{}`) },
	"another's content": func([]byte) []byte { return []byte(`{"rented":["flat 1","flat 2"]}`) },
	"a text":            func([]byte) []byte { return []byte("rented flats") },
}

// put stores content in place of the record of a held name.
func (s backingStore) put(old cas.Item, holder *suite.Claim, data []byte) error {
	record := providerkit.Record{Name: holder.Req.Name, ID: holder.Req.ID, Owner: holder.Req.Owner, Token: holder.Token(), TTL: holder.Ttl, Left: holder.Ttl}
	return s.e.Call(func(ctx context.Context) error { return suite.Second(s.Store.Put(ctx, old, &record, data)) })
}

// checkUnreadable requires that each verb refuses the content stored for a name, and leaves it unchanged.
func (s backingStore) checkUnreadable(holder *suite.Claim, what string) {
	e, p, name := s.e, holder.P, holder.Req.Name
	before := s.content(name)
	renew, release := holder.RenewRequest(e.Long), holder.ReleaseRequest()
	known := []call{{"renew", suite.Sending(p.Renew, renew)}, {"release", suite.Sending(suite.Releasing(p), release)}} // these may skip the read
	renew.State, release.State = nil, nil
	calls := append([]call{
		{"acquire", suite.Sending(p.Acquire, e.Request(name))}, {"acquire again", suite.Sending(p.Acquire, holder.Req)}, {"renew", suite.Sending(p.Renew, renew)},
		{"release", suite.Sending(suite.Releasing(p), release)}, {"break", suite.Sending(p.Break, abstractions.BreakRequest{Name: name})},
		{"break now", suite.Sending(p.Break, abstractions.BreakRequest{Name: name, Immediate: true})}, {"inspect", suite.Sending(p.Inspect, abstractions.InspectRequest{Name: name})},
	}, known...)
	for i, call := range calls {
		err := e.Call(call.do)
		if err == nil && s.Leases != nil && call.what == "release" { // it releases the backend's own lease, and writes nothing
			continue
		}
		e.Contains(fmt.Sprint(err), abstractions.ErrNotSetUp.Error(), "%s: %s", what, call.what)
		e.True(errors.Is(err, abstractions.ErrNotSetUp) || i >= len(calls)-len(known) && errors.Is(err, abstractions.ErrUnavailable), "%s: %s: %v", what, call.what, err)
	}
	sweeper := &cas.Records{Store: singleItem{s.Store, s.Key(name)}, Expiry: s.Expiry, Leases: s.Leases, Key: s.Key, Retention: 1}
	_ = e.Call(func(ctx context.Context) error { // it fails where the store refuses to read
		forgotten, _, err := sweeper.SweepPage(ctx, "")
		e.Zero(forgotten, "%s: a sweep", what)
		return err
	})
	e.Equal(before, s.content(name), what)
}

// content returns the content stored for a name, or the store's refusal.
func (s backingStore) content(name string) string {
	var item cas.Item
	err := s.e.Call(func(ctx context.Context) (err error) {
		item, err = s.Store.Get(ctx, s.Key(name))
		return err
	})
	if err != nil {
		s.e.ErrorIs(err, abstractions.ErrNotSetUp)
		return err.Error()
	}
	return string(item.Data)
}

// singleItem is a store that lists one item.
type singleItem struct {
	cas.Store
	key string
}

func (a singleItem) List(ctx context.Context, _ cas.ListQuery) ([]cas.Item, string, error) {
	item, err := a.Get(ctx, a.key)
	item.Key = a.key
	return []cas.Item{item}, "", err
}

// checkNotReplaced requires that the item is not replaced, not even by a break of the present holder.
func (s backingStore) checkNotReplaced(old cas.Item, holder *suite.Claim) {
	record := providerkit.Record{
		Name: holder.Req.Name, ID: holder.Req.ID, Owner: holder.Req.Owner, Token: holder.Token(), TTL: holder.Ttl, Left: holder.Ttl, Breaking: true,
	}
	s.e.ErrorIs(s.e.Call(func(ctx context.Context) error {
		_, err := s.Store.Put(ctx, old, &record, []byte("{}"))
		return err
	}), cas.ErrConflict)
	holder.Renew(s.e.Long)
	holder.IsHeld()
}
