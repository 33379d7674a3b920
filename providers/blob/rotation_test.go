package bloblease

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
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
)

// T122: a lease survives the replacement of its identity's files.
func TestTrap_T122_FilesOfAnIdentityAreReadAgain(t *testing.T) {
	server := startAzurite(t, true)
	authtest.EachFile(t, func(t *testing.T, tokens *authtest.Server, identity auth.Options) {
		tokens.SetLifetime(2 * time.Second)
		p, err := Open(t.Context(), tokenOptions(t, server, identity))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		credentialtest.OutlivesRotation(t, p, func() { tokens.RotateInUse(p.Ping) })
	})
}

// T182: a lease survives the replacement of its account key or SAS, whether the secret comes from a file or a function.
func TestTrap_T182_SecretsAreReplaced(t *testing.T) {
	keys := []string{newKey(), newKey()}
	server := startAzurite(t, false, keys...)
	// This server has only the second key, so it refuses requests that are signed with the
	// first key.
	second := startAzurite(t, false, keys[1])
	secretOf := map[string]func(i int) string{
		"key": func(i int) string { return keys[i] },
		"SAS": func(i int) string { return sasOf(t, keys[i]) },
	}
	for kind, secret := range secretOf {
		for _, how := range []string{"file", "URL", "function"} {
			t.Run(kind+" by "+how, func(t *testing.T) {
				newest, path := new(atomic.Value), filepath.Join(t.TempDir(), "secret")
				set := func(i int) {
					newest.Store(secret(i))
					require.NoError(t, os.WriteFile(path, []byte(secret(i)+"\n"), 0o600))
				}
				set(0)
				var rotated atomic.Bool
				transport := server.transport()
				t.Cleanup(transport.CloseIdleConnections)
				o := Options{AccountURL: server.URL(), Container: newContainer(), Create: true}
				if how == "URL" {
					o = Options{URL: strings.Replace(server.URL(), "http", "azblob+http", 1) + "/" + o.Container + "?create=true&secret_file=" + url.QueryEscape(path)}
				} else if o.SecretFile = path; how == "function" {
					o.SecretFile, o.Secret = "", func(context.Context) (string, error) { return newest.Load().(string), nil }
				}
				o.ClientOptions.Transport = transportFunc(func(req *http.Request) (*http.Response, error) {
					if rotated.Load() {
						asked := req.Clone(req.Context())
						asked.URL.Host, asked.Host, asked.Body = second.Addr(), second.Addr(), http.NoBody
						asked.ContentLength = 0
						answer, err := transport.RoundTrip(asked)
						if err != nil {
							return nil, err
						}
						if answer.StatusCode == http.StatusForbidden {
							answer.Request = req
							return answer, nil
						}
						require.NoError(t, answer.Body.Close())
					}
					return transport.RoundTrip(req)
				})
				p, err := Open(t.Context(), o)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, p.Close()) })
				credentialtest.OutlivesRotation(t, p, func() {
					rotated.Store(true)
					require.ErrorIs(t, p.Ping(t.Context()), abstractions.ErrDenied, "the former one is of no use")
					set(1)
				})
			})
		}
	}
}

// sasOf returns a SAS that is signed with the given key.
func sasOf(t testing.TB, key string) string {
	t.Helper()
	return (&bed{}).sas(t, &Azurite{Server: servertest.Server{T: t}, key: key})
}

// T119, T182: an error from the application's Secret function is not reported as an error from the account.
func TestTrap_T119_SecretsFail(t *testing.T) {
	server, source := StartAzurite(t), &credentialtest.Source{}
	container := newContainer()
	credentialtest.SourcesOfCredentials(t, credentialtest.SourceCheck{
		Source: source, TTL: maxTTL, Function: true,
		Open: func(t testing.TB) abstractions.Provider {
			p, err := Open(t.Context(), Options{
				AccountURL: server.URL(), Container: container, Create: true,
				Secret: func(ctx context.Context) (string, error) { return server.key, source.Err(ctx) },
			})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, p.Close()) })
			return p
		},
	})
}

func TestSecretsThatCannotWork(t *testing.T) {
	at := Options{AccountURL: "http://127.0.0.1:1/account", Container: "leases"}
	is := func(text string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return text, nil }
	}
	for _, change := range []func(*Options){
		func(o *Options) { o.Secret, o.SecretFile = is(canaryKey), "file" },
		func(o *Options) { o.Secret, o.AccountKey = is(canaryKey), canaryKey },
		func(o *Options) {
			o.ConnectionString, o.AccountURL, o.SecretFile = "AccountName=a;AccountKey="+canaryKey, "", "file"
		},
	} {
		o := at
		change(&o)
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, abstractions.ErrInvalid)
		require.NotContains(t, err.Error(), canary)
	}
	for _, text := range []string{"", canary + "!", "sig=" + canary} {
		o := at
		o.Secret = is(text)
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, abstractions.ErrUnavailable, "the next one may be better")
		require.ErrorContains(t, err, "credentials")
		require.NotContains(t, err.Error(), canary)
	}
	o, now := at, canaryKey
	o.Secret = func(context.Context) (string, error) { return now, nil }
	p, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	now = "sv=1&sig=" + canary
	err = p.Ping(t.Context())
	require.ErrorContains(t, err, "always the same")
	require.NotContains(t, err.Error(), canary)
}
