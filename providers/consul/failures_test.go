package consullease

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/providers/internal/httpjson"
)

// agentAnswer returns an answer with the headers of a Consul agent.
func agentAnswer(req *http.Request, status int, body string) *http.Response {
	response := faulttest.Answer(req, status, body)
	response.Header.Set("X-Consul-Default-Acl-Policy", "allow")
	response.Header.Set("X-Consul-Index", "7")
	return response
}

// T185: the advice for an answer matches the answer's cause.
func TestTrap_T185_WhatAnswersMean(t *testing.T) {
	p, w := openOverWire(t, Options{})
	const policy = "policy write"
	for _, c := range []struct {
		status int
		body   string
		want   error
		undone bool // the request was certainly not applied
		advice string
	}{
		{400, "Invalid token", abstractions.ErrNotSetUp, true, ""},
		{401, "ACL support disabled", abstractions.ErrDenied, true, ""},
		{403, "Permission denied", abstractions.ErrDenied, true, policy},
		{403, "ACL not found", abstractions.ErrDenied, true, "deleted or has expired"},
		{413, "", abstractions.ErrNotSetUp, true, "kv_max_value_size"},
		{429, "too many requests", abstractions.ErrThrottled, true, ""},
		{500, "No cluster leader", abstractions.ErrUnavailable, false, ""},
		{503, "", abstractions.ErrUnavailable, false, ""},
	} {
		*w = func(req *http.Request, _ faulttest.Sender) (*http.Response, error) {
			if req.Method == http.MethodGet {
				return agentAnswer(req, http.StatusNotFound, ""), nil
			}
			return agentAnswer(req, c.status, c.body), nil
		}
		_, err := p.Acquire(t.Context(), acquireRequest("a", time.Minute))
		require.ErrorIs(t, err, c.want, c.status)
		require.Contains(t, err.Error(), c.advice)
		require.Equal(t, c.advice == policy, strings.Contains(err.Error(), policy), err)
		require.Equal(t, c.undone, abstractions.NotApplied(err), c.status)
	}
	*w = func(req *http.Request, _ faulttest.Sender) (*http.Response, error) { // the answer from the agent's listener
		return faulttest.Answer(req, http.StatusTooManyRequests, "Your IP is issuing too many concurrent connections, please rate limit your calls\n"), nil
	}
	_, err := p.Acquire(t.Context(), acquireRequest("a", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrThrottled)
}

// An answer without Consul's mark counts neither as a refusal nor as a success nor as a missing key. Every verb gets every body.
func TestTrap_T110_AnAnswerWithoutTheMarkSaysNothing(t *testing.T) {
	p, w := openOverWire(t, Options{})
	s := p.driver.store
	item := cas.Item{Key: s.naming.Encode("a"), Version: "6"}
	for _, status := range []int{200, 201, 204, 304, 400, 401, 403, 404, 405, 409, 410, 412, 413, 422, 429, 503} {
		for _, body := range []string{
			"", "<html>", "null", "{}", "[]", "[null]", `"true"`, "0", `{"status": "maintenance"}`, `{"Results": []}`, `{"Results": [null]}`, `{"Results": [{}]}`,
			`{"Results": [{"KV": {"Key": "leases/b", "ModifyIndex": 7}}]}`, `{"Results": [{"KV": {"Key": "leases/a"}}]}`, `{"Results": [{"KV": {"Key": "leases/a", "ModifyIndex": 6}}]}`,
			`[{"Key": "leases/b", "Value": "e30=", "ModifyIndex": 7}]`, `[{"Key": "leases/a", "Value": "e30="}]`, `{"Errors": [{"What": "Permission denied"}]}`,
		} {
			*w = func(req *http.Request, _ faulttest.Sender) (*http.Response, error) {
				return faulttest.Answer(req, status, body), nil
			}
			_, get := s.Get(t.Context(), item.Key)
			_, put := s.Put(t.Context(), item, nil, []byte("{}"))
			remove := s.Delete(t.Context(), item)
			_, _, list := s.List(t.Context(), cas.ListQuery{})
			for verb, err := range map[string]error{"get": get, "put": put, "delete": remove, "list": list} {
				var foreign *httpguard.ForeignError
				require.ErrorAs(t, err, &foreign, "%s: %d %s", verb, status, body)
				require.Equal(t, providerkit.Unknown, p.driver.Classify(err).Class)
				require.ErrorContains(t, err, "not from Consul")
			}
		}
	}
}

// If a transaction is refused although the index is unchanged, the call reports the refusal instead of a conflict.
func TestARefusalThatIsNoConflictEnds(t *testing.T) {
	p, w := openOverWire(t, Options{})
	*w = func(req *http.Request, _ faulttest.Sender) (*http.Response, error) {
		if req.Method == http.MethodGet {
			return agentAnswer(req, http.StatusNotFound, ""), nil
		}
		return agentAnswer(req, http.StatusConflict, `{"Errors": [{"What": "Permission denied"}]}`), nil
	}
	_, err := p.Acquire(t.Context(), acquireRequest("a", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrDenied)
	require.ErrorContains(t, err, "ACL token")
}

func TestTrap_T71_WhatWasNotSentIsDefinite(t *testing.T) {
	p, w := openOverWire(t, Options{})
	faulttest.WhatWasNotSentIsDefinite(t, func(addr string) abstractions.Provider { return openUnprobed(t, Options{Address: "http://" + addr}) }, p, w)
}

func TestTrap_T13_LostReply(t *testing.T) {
	p, w := openOverWire(t, Options{URL: serverURL(t)})
	faulttest.RepliesAreLost(t, p, w)
}

// An ACL token needs the policy write for the prefix, and nothing else.
func TestTokens(t *testing.T) {
	s, admin := newServerOfTokens(t)
	token := func(rules string) providerkit.Secret {
		secret, _ := newToken(t, admin, rules)
		return providerkit.NewSecret(secret)
	}
	p := open(t, Options{Address: "http://" + s.Addr(), Token: token(`key_prefix "leases/" { policy = "write" }`)})
	g, err := p.Acquire(t.Context(), acquireRequest("a", time.Minute))
	require.NoError(t, err)
	_, err = p.Renew(t.Context(), renewRequest(g))
	require.NoError(t, err)
	_, err = p.List(t.Context(), abstractions.ListRequest{})
	require.NoError(t, err)
	_, err = p.Sweep(t.Context())
	require.NoError(t, err)

	p = open(t, Options{Address: "http://" + s.Addr(), Token: token(`key_prefix "leases/" { policy = "read" }`)})
	_, err = p.Acquire(t.Context(), acquireRequest("b", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrDenied)
	require.True(t, abstractions.NotApplied(err))
	p = openUnprobed(t, Options{Address: "http://" + s.Addr(), Token: providerkit.NewSecret("none")})
	_, err = p.Acquire(t.Context(), acquireRequest("b", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrDenied)
}

// newServerOfTokens starts a server that refuses requests without a token, and returns a client with all
// permissions.
func newServerOfTokens(t testing.TB) (*servertest.Server, *httpjson.Client) {
	t.Helper()
	const root = "b1a7e9a2-7a0e-4a0e-9b0e-1e1e1e1e1e1e"
	s := newServer(t, fmt.Sprintf(`acl { enabled = true, default_policy = "deny", tokens { initial_management = %q } }`, root))
	return s, openUnprobed(t, Options{Address: "http://" + s.Addr(), Token: providerkit.NewSecret(root)}).driver.store.client
}

// newToken creates an ACL token with the given rules.
func newToken(t testing.TB, admin *httpjson.Client, rules string) (secret, accessor string) {
	t.Helper()
	var made struct{ SecretID, AccessorID string }
	servertest.Eventually(t, "a new leader knows the first token", func(ctx context.Context) error {
		name := abstractions.NewID()
		_, err := admin.Do(ctx, http.MethodPut, "/v1/acl/policy", nil, map[string]string{"Name": name, "Rules": rules}, &struct{}{})
		if err == nil {
			_, err = admin.Do(ctx, http.MethodPut, "/v1/acl/token", nil, map[string]any{"Policies": []any{map[string]string{"Name": name}}}, &made)
		}
		return err
	})
	return made.SecretID, made.AccessorID
}
