package kuberneteslease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// statusAnswer returns an API server's refusal that concerns an object of the given kind.
func statusAnswer(code int, kind string) string {
	group := ""
	if kind != "" && kind != "namespaces" {
		group = `"group": "coordination.k8s.io", `
	}
	return fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "details": {%s"kind": %q}, "code": %d}`, group, kind, code)
}

// notFoundAnswer is the answer that the lease does not exist.
var notFoundAnswer = statusAnswer(http.StatusNotFound, "leases")

func TestWhatAnswersMean(t *testing.T) {
	p, w := openOverWire(t, unreachableOptions())
	for _, c := range []struct {
		status int
		kind   string
		want   error
		undone bool // the request was certainly not applied
	}{
		{400, "leases", abstractions.ErrNotSetUp, true},
		{401, "", abstractions.ErrDenied, true},
		{403, "leases", abstractions.ErrDenied, true},
		{404, "namespaces", abstractions.ErrNotSetUp, true},
		{413, "", abstractions.ErrNotSetUp, true},
		{422, "leases", abstractions.ErrNotSetUp, true},
		{429, "", abstractions.ErrThrottled, true},
		{500, "", abstractions.ErrUnavailable, false},
		{504, "", abstractions.ErrUnavailable, false},
	} {
		*w = func(req *http.Request, _ faulttest.Sender) (*http.Response, error) {
			if req.Method == http.MethodGet {
				return faulttest.Answer(req, http.StatusNotFound, notFoundAnswer), nil
			}
			return faulttest.Answer(req, c.status, statusAnswer(c.status, c.kind)), nil
		}
		_, err := p.Acquire(t.Context(), acquireRequest("a", time.Minute))
		require.ErrorIs(t, err, c.want, c.status)
		require.Equal(t, c.undone, abstractions.NotApplied(err), c.status)
	}
	for _, kind := range []string{"leases", "Lease"} { // a deletion has Lease
		*w = func(req *http.Request, _ faulttest.Sender) (*http.Response, error) {
			return faulttest.Answer(req, http.StatusConflict, statusAnswer(http.StatusConflict, kind)), nil
		}
		require.ErrorIs(t, p.driver.store.Delete(t.Context(), cas.Item{Key: "a", State: &lease{}}), cas.ErrConflict)
	}
	*w = func(req *http.Request, _ faulttest.Sender) (*http.Response, error) { // the answer from API priority and fairness
		response := faulttest.Answer(req, http.StatusTooManyRequests, "Too many requests, please try again later.\n")
		response.Header.Set("Audit-Id", "a")
		return response, nil
	}
	_, err := p.Acquire(t.Context(), acquireRequest("a", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrThrottled)
}

// T185: the advice for an answer matches the answer's cause.
func TestTrap_T185_AdviceIsOfTheCause(t *testing.T) {
	const verbs = "needs the verbs"
	for _, c := range []struct {
		status  int
		message string
		advice  string
	}{
		{401, "Unauthorized", "has expired"},
		{403, `leases.coordination.k8s.io "a" is forbidden: User "u" cannot create resource "leases" in API group "coordination.k8s.io"`, verbs},
		{403, `leases.coordination.k8s.io "a" is forbidden: exceeded quota: q, requested: count/leases=1`, "exceeded quota"},
		{403, `leases.coordination.k8s.io "a" is forbidden: unable to create new content in namespace n because it is being terminated`, "terminated"},
		{403, `admission webhook "w" denied the request`, "webhook"},
		{400, `admission webhook "w" denied the request`, "webhook"},
	} {
		body := fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": %q, "code": %d}`, c.message, c.status)
		p, w := openOverWire(t, unreachableOptions())
		*w = func(req *http.Request, _ faulttest.Sender) (*http.Response, error) {
			return faulttest.Answer(req, c.status, body), nil
		}
		_, err := p.Acquire(t.Context(), acquireRequest("a", time.Minute))
		require.ErrorContains(t, err, c.advice)
		require.Equal(t, c.advice == verbs, strings.Contains(err.Error(), verbs), err)
		require.True(t, abstractions.NotApplied(err))
	}
}

// An answer without Kubernetes' mark does not count as a refusal, a success or a missing lease. Each verb is tested with each
// body.
func TestTrap_T110_AnAnswerWithoutTheMarkSaysNothing(t *testing.T) {
	p, w := openOverWire(t, unreachableOptions())
	s := p.driver.store
	before := &lease{APIVersion: apiVersion, Kind: "Lease", Metadata: metadata{Name: "a", UID: "u", ResourceVersion: "6"}}
	item := cas.Item{Key: "a", Version: "6", State: before}
	const record = `{"ID":"i","Token":1}`
	for _, status := range []int{200, 201, 204, 304, 400, 401, 403, 404, 405, 409, 410, 412, 413, 422, 429, 503} {
		for _, body := range []string{
			"", "<html>", "null", "{}", "[]", "[null]", "true", `{"status": "maintenance"}`, `{"kind": "Status"}`, `{"details": {"kind": "leases"}}`,
			statusAnswer(599, "leases"), `{"kind": "Status", "details": {"kind": "leases"}, "code": 404}`, `{"kind": "Status", "apiVersion": "v1", "status": "Success"}`,
			`{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1"}`, `{"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1"}`,
			`{"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "metadata": {"resourceVersion": "7"}, "items": [null]}`,
			`{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "b", "uid": "u", "resourceVersion": "7"}}`,
			`{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "a", "uid": "u"}}`,
			`{"kind": "Lease", "apiVersion": "v2", "metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}}`,
		} {
			*w = func(req *http.Request, _ faulttest.Sender) (*http.Response, error) {
				return faulttest.Answer(req, status, body), nil
			}
			_, get := s.Get(t.Context(), "a")
			_, put := s.Put(t.Context(), item, &providerkit.Record{}, []byte(record))
			_, post := s.Put(t.Context(), cas.Item{Key: "a"}, &providerkit.Record{}, []byte(record))
			remove := s.Delete(t.Context(), item)
			_, _, list := s.List(t.Context(), cas.ListQuery{})
			for verb, err := range map[string]error{"get": get, "put": put, "post": post, "delete": remove, "list": list} {
				var foreign *httpguard.ForeignError
				require.ErrorAs(t, err, &foreign, "%s: %d %s", verb, status, body)
				require.Equal(t, providerkit.Unknown, p.driver.Classify(err).Class)
				require.ErrorContains(t, err, "not from Kubernetes")
			}
		}
	}
	// The lease in its state before a write is not accepted as the answer to the write.
	*w = func(req *http.Request, _ faulttest.Sender) (*http.Response, error) {
		return faulttest.Answer(req, http.StatusOK, `{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata":
			{"name": "a", "uid": "u", "resourceVersion": "7", "annotations": {"`+annotation+`": "{\"record\": {}}"}}}`), nil
	}
	_, err := s.Put(t.Context(), item, &providerkit.Record{}, []byte(record))
	require.ErrorContains(t, err, "not from Kubernetes")
	_, err = s.Get(t.Context(), "a")
	require.NoError(t, err)
}

func TestTrap_T71_WhatWasNotSentIsDefinite(t *testing.T) {
	p, w := openOverWire(t, unreachableOptions())
	faulttest.WhatWasNotSentIsDefinite(t, func(addr string) abstractions.Provider {
		return openUnprobed(t, Options{Address: "http://" + addr, Namespace: "default"})
	}, p, w)
}

// A slow server's work is not wasted: a request that was sent is not cut off, and a
// request that can't be sent in time is not sent.
func TestSlowServerWorksForNobodyWhoHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := openOverWire(t, unreachableOptions())
		const calls, each, timeout = 200, 10 * time.Millisecond, time.Second
		processor := make(chan struct{}, 1)
		var sent, cut, unsent atomic.Int64
		*w = func(req *http.Request, _ faulttest.Sender) (*http.Response, error) {
			sent.Add(1)
			done := make(chan struct{})
			go func() {
				processor <- struct{}{}
				<-time.After(each)
				<-processor
				close(done)
			}()
			select {
			case <-done:
				return faulttest.Answer(req, http.StatusNotFound, notFoundAnswer), nil
			case <-req.Context().Done():
				cut.Add(1)
				return nil, req.Context().Err()
			}
		}
		var all sync.WaitGroup
		for range calls {
			all.Go(func() {
				ask := func() error {
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					defer cancel()
					_, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "a"})
					return errors.Join(err, ctx.Err())
				}
				err := ask()
				for ; abstractions.NotApplied(err); err = ask() {
					assert.ErrorIs(t, err, abstractions.ErrUnavailable)
					assert.NotErrorIs(t, err, context.DeadlineExceeded, "the error comes while there is time")
					unsent.Add(1)
				}
				assert.NoError(t, err)
			})
		}
		all.Wait()
		require.Zero(t, cut.Load())
		require.EqualValues(t, calls, sent.Load(), "each once")
		require.Positive(t, unsent.Load())
	})
}

func TestTrap_T13_LostReply(t *testing.T) {
	p, w := openOverWire(t, Options{URL: serverURL(t)})
	faulttest.RepliesAreLost(t, p, w)
}

// The account needs only the permissions in the documentation.
func TestRights(t *testing.T) {
	s, at := newServer(t)
	users, admins := at(s.Addr()), at(s.Addr())
	admin := openUnprobed(t, admins).driver.store.client
	users.Token, users.TokenFile = providerkit.Secret{}, filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(users.TokenFile, []byte("expired\n"), 0o600))
	p := openUnprobed(t, users)
	_, err := p.Acquire(t.Context(), acquireRequest("a", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrDenied)

	// The provider reads the token file again, and uses the new token.
	require.NoError(t, os.WriteFile(users.TokenFile, []byte("of-the-user\n"), 0o600))
	_, err = p.Acquire(t.Context(), acquireRequest("a", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrDenied)
	require.ErrorContains(t, err, "verbs")
	require.True(t, abstractions.NotApplied(err))
	make := func(kind string, object map[string]any) {
		object["metadata"] = map[string]string{"name": "leasing"}
		_, err := admin.Do(t.Context(), http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"+kind, nil, object, &struct{}{})
		require.NoError(t, err)
	}
	make("roles", map[string]any{"rules": []any{map[string]any{
		"apiGroups": []string{"coordination.k8s.io"}, "resources": []string{"leases"}, "verbs": []string{"get", "list", "create", "update", "delete"},
	}}})
	make("rolebindings", map[string]any{
		"roleRef":  map[string]string{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "leasing"},
		"subjects": []any{map[string]string{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "user"}},
	})
	var g abstractions.Grant
	servertest.Eventually(t, "the rights are known", func(ctx context.Context) error {
		g, err = p.Acquire(ctx, acquireRequest("a", time.Minute))
		return err
	})
	_, err = p.Renew(t.Context(), renewRequest(g))
	require.NoError(t, err)
	require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, Token: g.Token, State: g.State}))
	_, err = p.List(t.Context(), abstractions.ListRequest{})
	require.NoError(t, err)
	item, err := p.driver.store.Get(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, p.driver.store.Delete(t.Context(), item))

	users.Namespace = "kube-system"
	_, err = openUnprobed(t, users).Acquire(t.Context(), acquireRequest("a", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrDenied)
	admins.Namespace = "there-is-none"
	_, err = openUnprobed(t, admins).Acquire(t.Context(), acquireRequest("a", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	require.ErrorContains(t, err, "namespaces")
}
