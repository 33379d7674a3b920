package kuberneteslease

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// none is the answer that there is no such lease.
const none = `{"kind": "Status", "details": {"kind": "leases"}}`

func TestWhatAnswersMean(t *testing.T) {
	p, w := through(t, nowhere())
	for _, c := range []struct {
		status int
		body   string
		want   error
		undone bool // it was not applied, and that is certain
	}{
		{301, "", abstractions.ErrNotSetUp, true},
		{401, "Unauthorized", abstractions.ErrDenied, true},
		{403, "leases.coordination.k8s.io is forbidden", abstractions.ErrDenied, true},
		{404, `{"kind": "Status", "details": {"kind": "namespaces"}}`, abstractions.ErrNotSetUp, true},
		{404, "404 page not found", abstractions.ErrNotSetUp, true},
		{413, "", abstractions.ErrNotSetUp, true},
		{422, "", abstractions.ErrNotSetUp, true},
		{429, "too many requests", abstractions.ErrThrottled, true},
		{500, "etcdserver: leader changed", abstractions.ErrUnavailable, false},
		{504, "", abstractions.ErrUnavailable, false},
		{200, "<html>", abstractions.ErrUnavailable, false},
	} {
		*w = func(req *http.Request, _ providertest.Sender) (*http.Response, error) {
			if req.Method == http.MethodGet {
				return providertest.Answer(req, http.StatusNotFound, none), nil
			}
			return providertest.Answer(req, c.status, c.body), nil
		}
		_, err := p.Acquire(t.Context(), wish("a", time.Minute))
		require.ErrorIs(t, err, c.want, c.status)
		require.Equal(t, c.undone, abstractions.NotApplied(err), c.status)
	}
}

func TestTrap_T71_WhatWasNotSentIsDefinite(t *testing.T) {
	p, w := through(t, nowhere())
	providertest.WhatWasNotSentIsDefinite(t, func(addr string) abstractions.Provider {
		return unasked(t, Options{Address: "http://" + addr, Namespace: "default"})
	}, p, w)
}

// A server that is slow does nothing in vain: what is sent is not cut off, and what can't be
// sent in time is not sent.
func TestSlowServerWorksForNobodyWhoHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := through(t, nowhere())
		const calls, each, patience = 200, 10 * time.Millisecond, time.Second
		processor := make(chan struct{}, 1)
		var sent, cut, unsent atomic.Int64
		*w = func(req *http.Request, _ providertest.Sender) (*http.Response, error) {
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
				return providertest.Answer(req, http.StatusNotFound, none), nil
			case <-req.Context().Done():
				cut.Add(1)
				return nil, req.Context().Err()
			}
		}
		var all sync.WaitGroup
		for range calls {
			all.Go(func() {
				ask := func() error {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					_, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "a"})
					return errors.Join(err, ctx.Err())
				}
				err := ask()
				for ; abstractions.NotApplied(err); err = ask() {
					assert.ErrorIs(t, err, abstractions.ErrUnavailable)
					assert.NotErrorIs(t, err, context.DeadlineExceeded, "it is told while there is time")
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
	p, w := through(t, Options{URL: named(t)})
	providertest.RepliesAreLost(t, p, w)
}

// The account needs no right but those that the documentation names, and needs them.
func TestRights(t *testing.T) {
	s, at := newServer(t)
	users, admins := at(s.Addr()), at(s.Addr())
	admin := unasked(t, admins).driver.store.client
	users.Token, users.TokenFile = providerkit.Secret{}, filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(users.TokenFile, []byte("expired\n"), 0o600))
	p := unasked(t, users)
	_, err := p.Acquire(t.Context(), wish("a", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrDenied)

	// It is read again.
	require.NoError(t, os.WriteFile(users.TokenFile, []byte("of-the-user\n"), 0o600))
	_, err = p.Acquire(t.Context(), wish("a", time.Minute))
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
		g, err = p.Acquire(ctx, wish("a", time.Minute))
		return err
	})
	_, err = p.Renew(t.Context(), renewal(g))
	require.NoError(t, err)
	require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, Token: g.Token, State: g.State}))
	_, err = p.List(t.Context(), abstractions.ListRequest{})
	require.NoError(t, err)
	item, err := p.driver.store.Get(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, p.driver.store.Delete(t.Context(), item))

	users.Namespace = "kube-system"
	_, err = unasked(t, users).Acquire(t.Context(), wish("a", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrDenied)
	admins.Namespace = "there-is-none"
	_, err = unasked(t, admins).Acquire(t.Context(), wish("a", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	require.ErrorContains(t, err, "namespaces")
}
