package consullease

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// T182: a lease survives the replacement of its ACL token, whether the token comes from a file or a function.
func TestTrap_T182_SecretsAreReplaced(t *testing.T) {
	s, admin := newServerOfTokens(t)
	const rules = `key_prefix "leases/" { policy = "write" }`
	for _, how := range []string{"file", "URL", "function"} {
		t.Run(how, func(t *testing.T) {
			newest, path := new(atomic.Value), filepath.Join(t.TempDir(), "secret")
			set := func() (accessor string) {
				token, accessor := newToken(t, admin, rules)
				newest.Store(token)
				require.NoError(t, os.WriteFile(path, []byte(token+"\n"), 0o600))
				return accessor
			}
			first := set()
			o := Options{Address: "http://" + s.Addr(), SecretFile: path}
			switch how {
			case "URL":
				o = Options{URL: "consul://" + s.Addr() + "/leases?secret_file=" + url.QueryEscape(path)}
			case "function":
				o.SecretFile, o.Secret = "", func(context.Context) (string, error) { return newest.Load().(string), nil }
			}
			p := open(t, o)
			credentialtest.OutlivesRotation(t, p, func() {
				_, err := admin.Do(t.Context(), http.MethodDelete, "/v1/acl/token/"+first, nil, nil, new(bool))
				require.NoError(t, err)
				require.ErrorIs(t, p.Ping(t.Context()), abstractions.ErrDenied, "the former one is of no use")
				set()
			})
		})
	}
}

// T182: each request has the newest token. T119: a request is not sent if no token is available.
func TestTrap_T182_EachRequestHasTheNewestToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for _, how := range []string{"file", "function"} {
		token, failure := "first", error(nil)
		require.NoError(t, os.WriteFile(path, []byte(token), 0o600))
		o := Options{SecretFile: path}
		if how == "function" {
			o = Options{Secret: func(context.Context) (string, error) { return token, failure }}
		}
		p, w := openOverWire(t, o)
		var sent []string
		*w = func(req *http.Request, _ faulttest.Sender) (*http.Response, error) {
			sent = append(sent, req.Header.Get("X-Consul-Token"))
			return agentAnswer(req, http.StatusNotFound, ""), nil
		}
		_ = p.Ping(t.Context())
		token = "second"
		require.NoError(t, os.WriteFile(path, []byte(token), 0o600))
		_ = p.Ping(t.Context())
		require.Equal(t, []string{"first", "second"}, sent)
		if how == "file" {
			continue
		}
		for _, token = range []string{"", "of two\nlines"} {
			_, err := p.Acquire(t.Context(), acquireRequest("a", time.Minute))
			require.ErrorIs(t, err, abstractions.ErrUnavailable)
			require.True(t, abstractions.NotApplied(err))
			require.NotContains(t, err.Error(), "of two")
		}
		failure = os.ErrPermission
		_, err := p.Acquire(t.Context(), acquireRequest("a", time.Minute))
		require.ErrorContains(t, err, "credentials: "+os.ErrPermission.Error())
		require.Len(t, sent, 2, "and nothing without one")
	}
	for _, o := range []Options{
		{Token: providerkit.NewSecret("t"), SecretFile: path}, {URL: "consul://:t@h/leases?secret_file=" + strings.ReplaceAll(path, "/", "%2F")},
	} {
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, abstractions.ErrInvalid)
	}
}
