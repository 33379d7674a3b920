package etcdlease

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// T182: a lease survives the replacement of its password, whether the password comes from a file or a function.
func TestTrap_T182_SecretsAreReplaced(t *testing.T) {
	c := newCluster(t, 1)
	c.enableAuth()
	admin, err := (&Options{Endpoints: c.addrs, Username: "root", Password: providerkit.NewSecret("secret/@root"), Timeout: 10 * time.Second}).client()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, admin.Close()) })
	current := "secret/@app"
	for _, how := range []string{"file", "URL", "function"} {
		t.Run(how, func(t *testing.T) {
			newest, path := new(atomic.Value), filepath.Join(t.TempDir(), "secret")
			set := func(password string) {
				newest.Store(password)
				require.NoError(t, os.WriteFile(path, []byte(password+"\n"), 0o600))
			}
			set(current)
			o := Options{Endpoints: c.addrs, Prefix: "p", Username: "app", SecretFile: path}
			switch how {
			case "URL":
				o = Options{URL: "etcd://app@" + c.addrs[0] + "/p?secret_file=" + url.QueryEscape(path)}
			case "function":
				o.SecretFile, o.Secret = "", func(context.Context) (string, error) { return newest.Load().(string), nil }
			}
			p := open(t, o)
			credentialtest.OutlivesRotation(t, p, func() {
				current += "+"
				_, err := admin.UserChangePassword(t.Context(), "app", current) // ends the user's tokens
				require.NoError(t, err)
				require.ErrorIs(t, p.Ping(t.Context()), abstractions.ErrDenied, "the former one is of no use")
				set(current)
			})
		})
	}
}

// T119, T182: an error from the application's Secret function is not reported as an error from etcd.
func TestTrap_T119_PasswordsFail(t *testing.T) {
	c, source := newCluster(t, 1), &credentialtest.Source{}
	c.enableAuth()
	admin, err := (&Options{Endpoints: c.addrs, Username: "root", Password: providerkit.NewSecret("secret/@root"), Timeout: 10 * time.Second}).client()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, admin.Close()) })
	credentialtest.SourcesOfCredentials(t, credentialtest.SourceCheck{
		Source: source, TTL: time.Minute, Function: true,
		Expire: func() { // a change of the password, even to the same one, ends the user's tokens
			_, err := admin.UserChangePassword(context.Background(), "app", "secret/@app")
			require.NoError(t, err)
		},
		Open: func(t testing.TB) abstractions.Provider {
			return open(t, Options{Endpoints: c.addrs, Prefix: "p", Username: "app", Secret: func(ctx context.Context) (string, error) {
				return "secret/@app", source.Err(ctx)
			}})
		},
	})
}

func TestSecretsThatCannotWork(t *testing.T) {
	is := func(context.Context) (string, error) { return "password", nil }
	for _, o := range []Options{
		{Secret: is}, {SecretFile: "file"}, {Username: "u", Secret: is, SecretFile: "file"},
		{Username: "u", Secret: is, Password: providerkit.NewSecret("p")},
	} {
		o.Endpoints = []string{"127.0.0.1:1"}
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, abstractions.ErrInvalid)
	}
	_, err := Open(t.Context(), Options{Endpoints: []string{"127.0.0.1:1"}, Username: "u", SecretFile: filepath.Join(t.TempDir(), "none")})
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
}
