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
)

// recordsChecks are about the promises that cas.Records requires of a store.
var recordsChecks = []check{
	{name: "Records_AWriteReplacesWhatItHasRead", needs: "Records", run: func(e *env) {
		s := e.shelf()
		name := e.name()
		unseen := s.get(name)
		e.Empty(unseen.Version)
		holder := e.take(name)
		s.refuses(unseen, holder)
		early := s.get(name)
		req := holder.renewRequest(e.long)
		req.Metadata = map[string]string{"region": "north"}
		e.NoError(second(send(e, e.p.Renew, req)))
		s.refuses(early, holder)
		e.Equal(req.Metadata, e.inspect(name).Metadata)
		holder.renew(e.long)
	}},
	// It has two deletions arrive late: one when the name is in use again, and one when the record has been replaced by a
	// later record.
	{name: "Trap_T28_ADelayedDeletionMeetsNothingNew", needs: "Records", run: func(e *env) {
		s := e.shelf()
		idle := e.take(e.name())
		name := idle.req.Name
		idle.release()
		free := s.get(name)
		next := e.take(name)
		err := s.delete(free)
		if errors.Is(err, abstractions.ErrUnsupported) {
			e.leaveOut("this store deletes nothing")
		}
		e.ErrorIs(err, cas.ErrConflict)
		next.isHeld()
		next.release()
		free = s.get(name)
		e.NoError(s.delete(free))
		last := e.settledTake(e.p, name)
		e.Greater(last.token(), next.token())
		e.ErrorIs(s.delete(free), cas.ErrConflict)
		s.refuses(free, last)
	}},
	// It writes tokens into the record of a free name, as an operator may by hand.
	{name: "Trap_T128_NoTokenFollowsTheLast", needs: "Records", run: func(e *env) {
		s := e.shelf()
		idle := e.take(e.name())
		name := idle.req.Name
		idle.release()
		s.setToken(name, abstractions.MaxToken-1)
		last := e.settledTake(e.p, name)
		e.EqualValues(abstractions.MaxToken, last.token())
		last.release()
		for _, token := range []int64{abstractions.MaxToken, abstractions.MaxToken + 1, math.MaxInt64} {
			s.setToken(name, token)
			for range 2 {
				_, err := e.try(e.p, e.request(name))
				e.ErrorIs(err, abstractions.ErrNotSetUp, "token %d", token)
				e.True(abstractions.NotApplied(err), "%v", err)
				e.Contains(fmt.Sprint(err), fmt.Sprint(token), "the message names the token")
			}
		}
	}},
	// Each verb meets the record of a later release, one that was damaged, and content of another application.
	{name: "Trap_T254_ARecordThatCannotBeReadIsRefusedAndKept", needs: "Records", run: func(e *env) {
		s := e.shelf()
		for what, change := range unreadable {
			holder := e.take(e.name())
			old := s.get(holder.req.Name)
			if err := s.put(old, holder, change(old.Data)); err != nil {
				e.Equal(string(old.Data), s.content(holder.req.Name), "%s: the store takes no such content", what)
				continue
			}
			s.keeps(holder, what)
		}
	}},
	{name: "Trap_T14_AWriteWhoseReplyIsLostIsLookedFor", needs: "Records", run: func(e *env) {
		records := e.h.Records(e.p)
		if records.Leases != nil {
			e.leaveOut("a write does not say what has become of the backend's own lease")
		}
		records.Store = mute{records.Store}
		holder := e.take(e.name())
		holder.renew(e.long)
		holder.isHeld()
		holder.release()
		e.isFree(holder.req.Name)
	}},
}

// mute is a store whose replies to writes are lost.
type mute struct{ cas.Store }

func (m mute) Put(ctx context.Context, old cas.Item, r *providerkit.Record, data []byte) (cas.Item, error) {
	if _, err := m.Store.Put(ctx, old, r, data); err != nil {
		return cas.Item{}, err
	}
	return cas.Item{}, errNoReply
}

// shelf is the store behind the client.
type shelf struct {
	e *env
	*cas.Records
}

func (e *env) shelf() shelf { return shelf{e, e.h.Records(e.p)} }

func (s shelf) get(name string) (item cas.Item) {
	s.e.NoError(s.e.call(func(ctx context.Context) (err error) {
		item, err = s.Store.Get(ctx, s.Key(name))
		return err
	}))
	item.Key = s.Key(name)
	return item
}

func (s shelf) delete(item cas.Item) error {
	return s.e.call(func(ctx context.Context) error { return s.Store.Delete(ctx, item) })
}

// setToken replaces the token that is stored of a free name.
func (s shelf) setToken(name string, token int64) {
	item := s.get(name)
	var fields map[string]json.RawMessage
	s.e.NoError(json.Unmarshal(item.Data, &fields))
	fields["token"] = json.RawMessage(strconv.FormatInt(token, 10))
	data, err := json.Marshal(fields)
	s.e.NoError(err)
	s.e.NoError(s.e.call(func(ctx context.Context) error {
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
func (s shelf) put(old cas.Item, holder *claim, data []byte) error {
	record := providerkit.Record{Name: holder.req.Name, ID: holder.req.ID, Owner: holder.req.Owner, Token: holder.token(), TTL: holder.ttl, Left: holder.ttl}
	return s.e.call(func(ctx context.Context) error { return second(s.Store.Put(ctx, old, &record, data)) })
}

// keeps says that each verb refuses the content stored for a name, and leaves it unchanged.
func (s shelf) keeps(holder *claim, what string) {
	e, p, name := s.e, holder.p, holder.req.Name
	before := s.content(name)
	renew, release := holder.renewRequest(e.long), holder.releaseRequest()
	known := []call{{"renew", sending(p.Renew, renew)}, {"release", sending(releasing(p), release)}} // these may skip the read
	renew.State, release.State = nil, nil
	calls := append([]call{
		{"acquire", sending(p.Acquire, e.request(name))}, {"acquire again", sending(p.Acquire, holder.req)}, {"renew", sending(p.Renew, renew)},
		{"release", sending(releasing(p), release)}, {"break", sending(p.Break, abstractions.BreakRequest{Name: name})},
		{"break now", sending(p.Break, abstractions.BreakRequest{Name: name, Immediate: true})}, {"inspect", sending(p.Inspect, abstractions.InspectRequest{Name: name})},
	}, known...)
	for i, call := range calls {
		err := e.call(call.do)
		if err == nil && s.Leases != nil && call.what == "release" { // it gives the backend's own lease up, and writes nothing
			continue
		}
		e.Contains(fmt.Sprint(err), abstractions.ErrNotSetUp.Error(), "%s: %s", what, call.what)
		e.True(errors.Is(err, abstractions.ErrNotSetUp) || i >= len(calls)-len(known) && errors.Is(err, abstractions.ErrUnavailable), "%s: %s: %v", what, call.what, err)
	}
	sweeper := &cas.Records{Store: alone{s.Store, s.Key(name)}, Expiry: s.Expiry, Leases: s.Leases, Key: s.Key, Retention: 1}
	_ = e.call(func(ctx context.Context) error { // it fails where the store refuses to read
		forgotten, _, err := sweeper.SweepPage(ctx, "")
		e.Zero(forgotten, "%s: a sweep", what)
		return err
	})
	e.Equal(before, s.content(name), what)
}

// content returns the content stored for a name, or the store's refusal.
func (s shelf) content(name string) string {
	var item cas.Item
	err := s.e.call(func(ctx context.Context) (err error) {
		item, err = s.Store.Get(ctx, s.Key(name))
		return err
	})
	if err != nil {
		s.e.ErrorIs(err, abstractions.ErrNotSetUp)
		return err.Error()
	}
	return string(item.Data)
}

// alone is a store that lists one item.
type alone struct {
	cas.Store
	key string
}

func (a alone) List(ctx context.Context, _ cas.ListQuery) ([]cas.Item, string, error) {
	item, err := a.Get(ctx, a.key)
	item.Key = a.key
	return []cas.Item{item}, "", err
}

// refuses requires that the item is not replaced, not even by a break of the present holder.
func (s shelf) refuses(old cas.Item, holder *claim) {
	record := providerkit.Record{
		Name: holder.req.Name, ID: holder.req.ID, Owner: holder.req.Owner, Token: holder.token(), TTL: holder.ttl, Left: holder.ttl, Breaking: true,
	}
	s.e.ErrorIs(s.e.call(func(ctx context.Context) error {
		_, err := s.Store.Put(ctx, old, &record, []byte("{}"))
		return err
	}), cas.ErrConflict)
	holder.renew(s.e.long)
	holder.isHeld()
}
