package cosmoslease

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
)

// T118: neither a key's signature nor a token follows a redirect to another host, in any mode of
// package auth.
func TestTrap_T118_NoSecretFollowsARedirect(t *testing.T) {
	to := func(o Options) func(t testing.TB, url string) (abstractions.Provider, error) {
		return func(t testing.TB, url string) (abstractions.Provider, error) {
			o := o
			o.Endpoint, o.Database, o.Container = url, testDatabase, testContainer
			return Open(t.Context(), o)
		}
	}
	t.Run("Key", func(t *testing.T) {
		credentialtest.NoSecretIsRedirected(t, to(Options{Key: secret}), "Authorization: type", secret)
	})
	t.Run("ConnectionString", func(t *testing.T) {
		credentialtest.NoSecretIsRedirected(t, func(t testing.TB, url string) (abstractions.Provider, error) {
			return Open(t.Context(), Options{ConnectionString: "AccountEndpoint=" + url + ";AccountKey=" + secret, Database: testDatabase, Container: testContainer})
		}, "Authorization: type", secret)
	})
	authtest.Each(t, func(t *testing.T, server *authtest.Server, options auth.Options) {
		credentialtest.NoSecretIsRedirected(t, to(Options{Auth: options}), "Authorization: type=aad", server.Secrets()...)
	})
}

// panickingCredential is a credential that may panic. Its tokens expire at once.
type panickingCredential struct {
	bearer
	maybe func()
}

func (p *panickingCredential) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	p.maybe()
	return p.bearer.GetToken(ctx, o)
}

type transportFunc func(*http.Request) (*http.Response, error)

func (d transportFunc) Do(r *http.Request) (*http.Response, error) { return d(r) }

// hookPolicy calls a function for each request.
type hookPolicy func()

func (f hookPolicy) Do(req *policy.Request) (*http.Response, error) {
	f()
	return req.Next()
}

// T124: a panic in the application's credential, transport or policy does not end the process.
func TestTrap_T124_CodeOfTheApplicationPanics(t *testing.T) {
	account := cosmostest.New(cosmostest.Options{Token: func(string) error { return nil }, Key: testKey})
	account.AddContainer(testDatabase, testContainer, "/id")
	service := httptest.NewServer(account)
	t.Cleanup(service.Close)
	for name, set := range map[string]func(o *Options, maybe func()){
		"credential": func(o *Options, maybe func()) { o.Key, o.Credential = "", &panickingCredential{maybe: maybe} },
		"transport": func(o *Options, maybe func()) {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			o.ClientOptions.Transport = transportFunc(func(r *http.Request) (*http.Response, error) { maybe(); return client.Do(r) })
		},
		"policy":            func(o *Options, maybe func()) { o.ClientOptions.PerCallPolicies = []policy.Policy{hookPolicy(maybe)} },
		"policy of retries": func(o *Options, maybe func()) { o.ClientOptions.PerRetryPolicies = []policy.Policy{hookPolicy(maybe)} },
	} {
		t.Run(name, func(t *testing.T) {
			credentialtest.ApplicationPanics(t, time.Minute, func(t testing.TB, maybe func()) abstractions.Provider {
				o := Options{Endpoint: service.URL, Key: testKey, Database: testDatabase, Container: testContainer}
				set(&o, maybe)
				p := openTest(t, o)
				require.NoError(t, p.Ping(t.Context()))
				return p
			})
		})
	}
}
