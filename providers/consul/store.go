package consullease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
	"github.com/distributedleasing/leasing/providers/internal/httpjson"
)

// store implements cas.Store over the entries under a prefix. The version of an entry is
// its ModifyIndex.
type store struct {
	client *httpjson.Client
	naming cas.Naming
	common url.Values // the parameters of all requests
}

// entry is an entry of the key-value store:
// developer.hashicorp.com/consul/api-docs/kv#read-key.
type entry struct {
	Key         string
	Value       []byte
	ModifyIndex uint64
}

func (s *store) query(name, value string) url.Values {
	query := maps.Clone(s.common)
	query.Set(name, value)
	return query
}

// hasMark reports whether an answer comes from a Consul agent, which sends its default ACL policy
// in a header since 1.9.0: github.com/hashicorp/consul/pull/9101. The refusal of too many
// connections lacks that header: tooManyConnsMsg in
// github.com/hashicorp/go-connlimit@v0.3.0/connlimit.go.
func hasMark(response *http.Response, body []byte) bool {
	return response.Header.Get("X-Consul-Default-Acl-Policy") != "" || response.StatusCode == http.StatusTooManyRequests &&
		string(body) == "Your IP is issuing too many concurrent connections, please rate limit your calls\n"
}

// entries is the answer to a read. A page that a proxy sends has no X-Consul-Index:
// developer.hashicorp.com/consul/api-docs/features/blocking.
type entries struct {
	requested string // the requested key or prefix
	isPrefix  bool   // requested is a prefix
	kv        []entry
}

func (e *entries) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &e.kv) }

func (e *entries) Marked(header http.Header) bool {
	return len(e.kv) > 0 && hasIndex(header) && !slices.ContainsFunc(e.kv, func(kv entry) bool {
		return kv.ModifyIndex == 0 || kv.Key != e.requested && !(e.isPrefix && strings.HasPrefix(kv.Key, e.requested))
	})
}

// hasIndex reports whether an answer to a read comes from Consul.
func hasIndex(header http.Header) bool {
	index, err := strconv.ParseUint(header.Get("X-Consul-Index"), 10, 64)
	return err == nil && index > 0
}

// read reads entries. A result without entries is not an error.
func (s *store) read(ctx context.Context, key string, options ...string) ([]cas.Item, cas.Item, error) {
	query := s.query("consistent", "")
	for _, option := range options {
		query.Set(option, "")
	}
	found := entries{requested: key, isPrefix: len(options) > 0}
	header, err := s.client.Do(ctx, http.MethodGet, "/v1/kv/"+(&url.URL{Path: key}).EscapedPath(), query, nil, &found)
	if err != nil && !(httpjson.StatusOf(err) == http.StatusNotFound && hasIndex(header)) {
		return nil, cas.Item{}, err
	}
	none := cas.Item{Key: key}
	if none.Now, err = httpguard.Date(header); err != nil {
		return nil, none, err
	}
	items := make([]cas.Item, len(found.kv))
	for i, e := range found.kv {
		items[i] = cas.Item{Key: e.Key, Data: e.Value, Version: strconv.FormatUint(e.ModifyIndex, 10), Now: none.Now}
	}
	return items, none, nil
}

// Get reads an entry.
func (s *store) Get(ctx context.Context, key string) (cas.Item, error) {
	items, none, err := s.read(ctx, key)
	if err != nil || len(items) == 0 {
		return none, err
	}
	return items[0], nil
}

type operation struct {
	KV struct {
		Verb  string
		Key   string
		Value []byte
		Index uint64
	}
}

// writeAnswer is the answer to a transaction of one write.
type writeAnswer struct {
	Results []struct{ KV entry }
	old     operation
}

func (w *writeAnswer) Marked(http.Header) bool {
	return len(w.Results) == 1 && w.Results[0].KV.Key == w.old.KV.Key && w.Results[0].KV.ModifyIndex > w.old.KV.Index
}

// deleteAnswer is the answer to a deletion: true or false.
type deleteAnswer struct{ done *bool }

func (d *deleteAnswer) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &d.done) }

func (d *deleteAnswer) Marked(header http.Header) bool {
	return d.done != nil && hasMark(&http.Response{Header: header}, nil)
}

// errRefused is the error of a transaction that Consul has refused for a reason other
// than its index.
var errRefused = errors.New("the transaction was refused")

// Put creates an entry, with the index 0, or replaces an entry. It uses a transaction
// because the answer to a transaction has the new index.
func (s *store) Put(ctx context.Context, old cas.Item, _ *providerkit.Record, data []byte) (cas.Item, error) {
	o := make([]operation, 1)
	o[0].KV.Verb, o[0].KV.Key, o[0].KV.Value = "cas", old.Key, data
	o[0].KV.Index, _ = strconv.ParseUint(old.Version, 10, 64)
	result := writeAnswer{old: o[0]}
	_, err := s.client.Do(ctx, http.MethodPut, "/v1/txn", s.common, o, &result)
	if httpjson.StatusOf(err) == http.StatusConflict {
		return cas.Item{}, s.conflictError(ctx, old, err)
	}
	if err != nil {
		return cas.Item{}, err
	}
	return cas.Item{Key: old.Key, Data: data, Version: strconv.FormatUint(result.Results[0].KV.ModifyIndex, 10)}, nil
}

// conflictError finds the cause of a 409. All refused transactions have this status, and Consul gives
// the reason only as text. If the index has not changed, the refusal has another reason.
func (s *store) conflictError(ctx context.Context, old cas.Item, refusal error) error {
	now, err := s.Get(ctx, old.Key)
	if err == nil && now.Version == old.Version {
		return fmt.Errorf("%w: %w", errRefused, refusal)
	}
	return cas.ErrConflict
}

// Delete deletes an entry if it still has the index that was read.
func (s *store) Delete(ctx context.Context, item cas.Item) error {
	var gone deleteAnswer
	_, err := s.client.Do(ctx, http.MethodDelete, "/v1/kv/"+(&url.URL{Path: item.Key}).EscapedPath(), s.query("cas", item.Version), nil, &gone)
	if err == nil && !*gone.done {
		return cas.ErrConflict
	}
	return err
}

// List reads all entries, which Consul sorts by key, and returns a page.
func (s *store) List(ctx context.Context, q cas.ListQuery) (page []cas.Item, next string, err error) {
	items, _, err := s.read(ctx, s.naming.EncodePrefix(q.Prefix), "recurse")
	for _, item := range items {
		if q.After != "" && strings.Compare(item.Key, q.After) <= 0 {
			continue
		}
		if len(page) == q.Limit {
			return page, page[len(page)-1].Key, nil
		}
		page = append(page, item)
	}
	return page, "", err
}
