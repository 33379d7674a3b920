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
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
	"github.com/distributedleasing/leasing/providers/internal/httpjson"
)

// store implements cas.Store over the leases of a namespace. The version of a lease is
// its resourceVersion.
type store struct {
	client    *httpjson.Client
	path      string // the path of the namespace's leases
	namespace string
}

// Get reads a lease. Without a resourceVersion in the query, the server reads from etcd.
func (s *store) Get(ctx context.Context, key string) (cas.Item, error) {
	found := leaseAnswer{lease: lease{Metadata: metadata{Name: key}}}
	header, err := s.client.Do(ctx, http.MethodGet, s.path+"/"+key, nil, nil, &found)
	missing := isNotFound(err)
	if err != nil && !missing {
		return cas.Item{}, err
	}
	now, err := httpguard.Date(header)
	if err != nil || missing {
		return cas.Item{Key: key, Now: now}, err
	}
	return found.item(now)
}

// status is an API server's answer to a refused request, and to a deletion:
// kubernetes.io/docs/reference/kubernetes-api/common-definitions/status.
type status struct {
	APIVersion, Kind, Status, Message string
	Code                              int
	Details                           struct{ Name, Group, Kind string }
}

func (s *status) isStatus() bool { return s.APIVersion == "v1" && s.Kind == "Status" }

// hasMark reports whether a refusal comes from an API server. The refusal of too many requests
// is plain text, so its header decides: audit_init.go in
// k8s.io/apiserver@v0.36.3/pkg/endpoints/filters.
func hasMark(response *http.Response, body []byte) bool {
	var s status
	return json.Unmarshal(body, &s) == nil && s.isStatus() && s.Code == response.StatusCode ||
		response.StatusCode == http.StatusTooManyRequests && response.Header.Get("Audit-Id") != ""
}

// isAboutLease reports whether an API server has refused a request with the given status because of the
// lease, and not because of a missing namespace, which leads to the same status. If a deletion conflicts, the answer's kind is
// Lease: store.go in k8s.io/apiserver@v0.36.3/pkg/registry/generic/registry.
func isAboutLease(err error, code int) bool {
	var refusal *httpjson.StatusError
	var s status
	return errors.As(err, &refusal) && refusal.Status == code && json.Unmarshal(refusal.Body, &s) == nil &&
		(s.Details.Kind == "leases" || s.Details.Kind == "Lease") && s.Details.Group == group
}

// isNotFound reports whether an answer means that the lease does not exist.
func isNotFound(err error) bool { return isAboutLease(err, http.StatusNotFound) }

// conflictError converts the refusal of an outdated version to ErrConflict.
func conflictError(err error) error {
	if isAboutLease(err, http.StatusConflict) || isNotFound(err) {
		return cas.ErrConflict
	}
	return err
}

// leaseAnswer is the lease that an API server returns. Before the request, it has the name
// of the requested lease.
type leaseAnswer struct {
	lease
	sent *lease // nil for a read
}

func (a *leaseAnswer) UnmarshalJSON(data []byte) error {
	asked := a.Metadata.Name
	a.lease = lease{}
	if err := json.Unmarshal(data, &a.lease); err != nil {
		return err
	}
	if a.Metadata.Name != asked {
		a.Metadata.ResourceVersion = "" // another lease
	}
	return nil
}

// Marked reports whether the lease is the requested lease, with the annotation of the request.
func (a *leaseAnswer) Marked(http.Header) bool {
	if a.APIVersion != apiVersion || a.Kind != "Lease" || a.Metadata.ResourceVersion == "" || a.Metadata.UID == "" {
		return false
	}
	return a.sent == nil || a.Metadata.Annotations[annotation] == a.sent.Metadata.Annotations[annotation] &&
		(a.sent.Metadata.UID == "" || a.Metadata.UID == a.sent.Metadata.UID)
}

// deleteAnswer is the answer to a deletion: a Status, or the lease if it has finalizers.
type deleteAnswer struct {
	status
	Metadata metadata
	name     string
}

func (d *deleteAnswer) Marked(http.Header) bool {
	if d.isStatus() {
		return d.Status == "Success" && d.Details.Name == d.name && d.Details.Kind == "leases"
	}
	return d.APIVersion == apiVersion && d.Kind == "Lease" && d.Metadata.Name == d.name && d.Metadata.ResourceVersion != ""
}

// leaseList is the answer to a list.
type leaseList struct {
	APIVersion, Kind string
	Metadata         metadata
	Items            []*lease
}

func (a *leaseList) Marked(http.Header) bool {
	return a.APIVersion == apiVersion && a.Kind == "LeaseList" && a.Metadata.ResourceVersion != "" &&
		!slices.ContainsFunc(a.Items, func(l *lease) bool { return l == nil || l.Metadata.Name == "" || l.Metadata.ResourceVersion == "" })
}

// Put creates a lease, or replaces the lease with the resourceVersion and UID that were read.
// Without the UID, the server would create a deleted lease again: AllowCreateOnUpdate in
// k8s.io/kubernetes@v1.36.3/pkg/registry/coordination/lease/strategy.go.
func (s *store) Put(ctx context.Context, old cas.Item, r *providerkit.Record, data []byte) (cas.Item, error) {
	method, path, before := http.MethodPost, s.path, &lease{Metadata: metadata{Name: old.Key}}
	if old.Version != "" {
		method, path, before = http.MethodPut, s.path+"/"+old.Key, old.State.(*lease)
	}
	next, err := before.with(r, data)
	if err != nil {
		return cas.Item{}, err
	}
	stored := leaseAnswer{lease: lease{Metadata: metadata{Name: old.Key}}, sent: next}
	_, err = s.client.Do(ctx, method, path, url.Values{"fieldManager": {manager}}, next, &stored)
	if err != nil {
		return cas.Item{}, conflictError(err)
	}
	return stored.item(r.Now)
}

// Delete deletes a lease if it still has the resourceVersion and UID that were read.
func (s *store) Delete(ctx context.Context, item cas.Item) error {
	options := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": map[string]string{
		"uid": item.State.(*lease).Metadata.UID, "resourceVersion": item.Version,
	}}
	_, err := s.client.Do(ctx, http.MethodDelete, s.path+"/"+item.Key, nil, options, &deleteAnswer{name: item.Key})
	return conflictError(err)
}

// List reads all leases of the namespace, and returns a page of those with a record.
func (s *store) List(ctx context.Context, q cas.ListQuery) (page []cas.Item, next string, err error) {
	var found leaseList
	header, err := s.client.Do(ctx, http.MethodGet, s.path, nil, nil, &found)
	if err != nil {
		return nil, "", err
	}
	now, err := httpguard.Date(header)
	if err != nil {
		return nil, "", err
	}
	slices.SortFunc(found.Items, func(a, b *lease) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	for _, l := range found.Items {
		if l.Metadata.Name <= q.After || l.Metadata.Annotations[annotation] == "" {
			continue
		}
		var record struct{ Name string }
		item, err := l.item(now)
		if err != nil || json.Unmarshal(item.Data, &record) != nil || !strings.HasPrefix(record.Name, q.Prefix) {
			continue // Inspect reports the error
		}
		if len(page) == q.Limit {
			return page, page[len(page)-1].Key, nil
		}
		page = append(page, item)
	}
	return page, "", nil
}
