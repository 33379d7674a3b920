package kuberneteslease

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
	"github.com/distributedleasing/leasing/providers/internal/httpjson"
)

// store is the leases of a namespace as a providerkit.Store. The version of one is its
// resourceVersion.
type store struct {
	client *httpjson.Client
	path   string // of the namespace's leases
}

// Get reads a lease. Without a resourceVersion in its query the server asks etcd.
func (s *store) Get(ctx context.Context, key string) (providerkit.Item, error) {
	var found lease
	header, err := s.client.Do(ctx, http.MethodGet, s.path+"/"+key, nil, nil, &found)
	missing := absent(err)
	if err != nil && !missing {
		return providerkit.Item{}, err
	}
	now, err := httpguard.Date(header)
	if err != nil || missing {
		return providerkit.Item{Key: key, Now: now}, err
	}
	return found.item(now)
}

// absent reports whether an answer says that there is no such lease. One that there is no
// such namespace, or that this is no API server, has the same status.
func absent(err error) bool {
	var answer *httpjson.StatusError
	var status struct{ Details struct{ Kind string } }
	return errors.As(err, &answer) && answer.Status == http.StatusNotFound && json.Unmarshal(answer.Body, &status) == nil && status.Details.Kind == "leases"
}

// refused makes of an answer that another version is stored what Records knows.
func refused(err error) error {
	if httpjson.StatusOf(err) == http.StatusConflict || absent(err) {
		return providerkit.ErrConflict
	}
	return err
}

// Put creates a lease, or replaces one under its resourceVersion and UID. Without the latter
// the server would create again what somebody has deleted: AllowCreateOnUpdate in
// k8s.io/kubernetes@v1.36.3/pkg/registry/coordination/lease/strategy.go.
func (s *store) Put(ctx context.Context, old providerkit.Item, r *providerkit.Record, data []byte) (providerkit.Item, error) {
	method, path, before := http.MethodPost, s.path, &lease{Metadata: metadata{Name: old.Key}}
	if old.Version != "" {
		method, path, before = http.MethodPut, s.path+"/"+old.Key, old.State.(*lease)
	}
	next, err := before.with(r, data)
	if err != nil {
		return providerkit.Item{}, err
	}
	var stored lease
	_, err = s.client.Do(ctx, method, path, url.Values{"fieldManager": {manager}}, next, &stored)
	if err != nil {
		return providerkit.Item{}, refused(err)
	}
	return stored.item(r.Now)
}

// Delete deletes a lease under its resourceVersion and UID.
func (s *store) Delete(ctx context.Context, item providerkit.Item) error {
	options := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": map[string]string{
		"uid": item.State.(*lease).Metadata.UID, "resourceVersion": item.Version,
	}}
	_, err := s.client.Do(ctx, http.MethodDelete, s.path+"/"+item.Key, nil, options, &struct{}{})
	return refused(err)
}

// List reads all leases of the namespace, and makes pages of those that have a record.
func (s *store) List(ctx context.Context, q providerkit.ListQuery) (page []providerkit.Item, next string, err error) {
	var all struct{ Items []*lease }
	header, err := s.client.Do(ctx, http.MethodGet, s.path, nil, nil, &all)
	if err != nil {
		return nil, "", err
	}
	now, err := httpguard.Date(header)
	if err != nil {
		return nil, "", err
	}
	slices.SortFunc(all.Items, func(a, b *lease) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	for _, l := range all.Items {
		if l.Metadata.Name <= q.After || l.Metadata.Annotations[annotation] == "" {
			continue
		}
		var record struct{ Name string }
		item, err := l.item(now)
		if err != nil || json.Unmarshal(item.Data, &record) != nil || !strings.HasPrefix(record.Name, q.Prefix) {
			continue // Inspect says what it is
		}
		if len(page) == q.Limit {
			return page, page[len(page)-1].Key, nil
		}
		page = append(page, item)
	}
	return page, "", nil
}
