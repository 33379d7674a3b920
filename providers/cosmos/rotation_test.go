package cosmoslease

import (
	"context"
	"encoding/base64"
	"net/http/httptest"
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
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
)

// T122: a lease survives the replacement of its identity's files.
func TestTrap_T122_FilesOfAnIdentityAreReadAgain(t *testing.T) {
	authtest.EachFile(t, func(t *testing.T, server *authtest.Server, identity auth.Options) {
		server.SetLifetime(2 * time.Second)
		account := cosmostest.New(cosmostest.Options{Token: func(token string) error { return server.Check(token, audience) }})
		account.AddContainer(testDatabase, testContainer, "/id")
		service := httptest.NewServer(account)
		t.Cleanup(service.Close)
		p := openTest(t, Options{Endpoint: service.URL, Auth: identity, Database: testDatabase, Container: testContainer})
		credentialtest.OutlivesRotation(t, p, func() { server.RotateInUse(p.Ping) })
	})
}

// T182: a lease survives the replacement of its account's key, whether the key comes from a file or a function.
func TestTrap_T182_SecretsAreReplaced(t *testing.T) {
	keys := []string{testKey, base64.StdEncoding.EncodeToString([]byte("the second key of the account"))}
	for _, how := range []string{"file", "URL", "function"} {
		t.Run(how, func(t *testing.T) {
			account := cosmostest.New(cosmostest.Options{Key: keys[0]})
			account.AddContainer(testDatabase, testContainer, "/id")
			service := httptest.NewServer(account)
			t.Cleanup(service.Close)
			newest, path := new(atomic.Value), filepath.Join(t.TempDir(), "secret")
			set := func(key string) {
				newest.Store(key)
				require.NoError(t, os.WriteFile(path, []byte(key+"\n"), 0o600))
			}
			set(keys[0])
			o := Options{Endpoint: service.URL, Database: testDatabase, Container: testContainer, SecretFile: path}
			switch how {
			case "URL":
				o = Options{URL: strings.Replace(service.URL, "http", "cosmos+http", 1) + "/app/leases?secret_file=" + url.QueryEscape(path)}
			case "function":
				o.SecretFile, o.Secret = "", func(context.Context) (string, error) { return newest.Load().(string), nil }
			}
			p := openTest(t, o)
			credentialtest.OutlivesRotation(t, p, func() {
				account.SetKey(keys[1])
				require.ErrorIs(t, p.Ping(t.Context()), abstractions.ErrDenied, "the former one is of no use")
				set(keys[1])
			})
		})
	}
}

// T119, T182: an error from the application's Secret function is not reported as an error from the account.
func TestTrap_T119_SecretsFail(t *testing.T) {
	account := cosmostest.New(cosmostest.Options{Key: testKey})
	account.AddContainer(testDatabase, testContainer, "/id")
	service := httptest.NewServer(account)
	t.Cleanup(service.Close)
	source := &credentialtest.Source{}
	credentialtest.SourcesOfCredentials(t, credentialtest.SourceCheck{
		Source: source, TTL: time.Minute, Function: true,
		Open: func(t testing.TB) abstractions.Provider {
			return openTest(t, Options{
				Endpoint: service.URL, Database: testDatabase, Container: testContainer,
				Secret: func(ctx context.Context) (string, error) { return testKey, source.Err(ctx) },
			})
		},
	})
}

func TestSecretsThatCannotWork(t *testing.T) {
	at := Options{Endpoint: "http://127.0.0.1:1", Database: testDatabase, Container: testContainer}
	is := func(context.Context) (string, error) { return "no base64!", nil }
	for _, change := range []func(*Options){
		func(o *Options) { o.Secret, o.SecretFile = is, "file" },
		func(o *Options) { o.Secret, o.Key = is, testKey },
		func(o *Options) {
			o.ConnectionString, o.Endpoint, o.SecretFile = "AccountEndpoint=https://h;AccountKey="+testKey, "", "file"
		},
	} {
		o := at
		change(&o)
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, abstractions.ErrInvalid)
	}
	o := at
	o.Secret = is
	err := openTest(t, o).Ping(t.Context())
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.ErrorContains(t, err, "credentials")
	require.NotContains(t, err.Error(), "no base64!")
}
