package bloblease

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
)

// T118: after a redirect, another host does not get a SAS, a key's signature or a Referer with a
// SAS, and no error shows a secret.
func TestTrap_T118_NoSecretFollowsARedirect(t *testing.T) {
	const signature = "sv=1&sig=" + canary
	for name, test := range map[string]struct {
		options func(url string) Options
		proof   string
	}{
		"SAS":            {func(url string) Options { return Options{AccountURL: url + "/account", SAS: signature} }, canary},
		"SAS of the URL": {func(url string) Options { return Options{AccountURL: url + "/account/leases?" + signature} }, canary},
		"SAS of a connection": {func(url string) Options {
			return Options{ConnectionString: "BlobEndpoint=" + url + "/account;SharedAccessSignature=" + signature}
		}, canary},
		"application's client": {func(url string) Options {
			o := Options{AccountURL: url + "/account", SAS: signature}
			o.ClientOptions.Transport = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			return o
		}, canary},
		"key": {func(url string) Options { return Options{AccountURL: url + "/account", AccountKey: canaryKey} }, "SharedKey account:"},
	} {
		t.Run(name, func(t *testing.T) {
			credentialtest.NoSecretIsRedirected(t, func(t testing.TB, url string) (abstractions.Provider, error) {
				o := test.options(url)
				if name != "SAS of the URL" {
					o.Container = "leases"
				}
				return Open(t.Context(), o)
			}, test.proof, canary, canaryKey)
		})
	}
}

// T124: a panic of the application's credential, transport or policy does not end the process.
func TestTrap_T124_CodeOfTheApplicationPanics(t *testing.T) {
	server := startAzurite(t, true)
	own, err := auth.New(authtest.Start(t).ClientSecret())
	require.NoError(t, err)
	for name, set := range map[string]func(o *Options, maybe func()){
		"credential": func(o *Options, maybe func()) { o.Credential = panickingCredential{own, maybe} },
		"transport": func(o *Options, maybe func()) {
			next := o.ClientOptions.Transport
			o.ClientOptions.Transport = transportFunc(func(r *http.Request) (*http.Response, error) { maybe(); return next.Do(r) })
		},
		"policy": func(o *Options, maybe func()) {
			o.ClientOptions.PerCallPolicies = append(o.ClientOptions.PerCallPolicies, hookPolicy(maybe))
		},
	} {
		t.Run(name, func(t *testing.T) {
			credentialtest.ApplicationPanics(t, maxTTL, func(t testing.TB, maybe func()) abstractions.Provider {
				o := tokenOptions(t, server, auth.Options{})
				o.Credential = own
				set(&o, maybe)
				p, err := Open(t.Context(), o)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, p.Close()) })
				require.NoError(t, p.Ping(t.Context()))
				return p
			})
		})
	}
}

// hookPolicy calls a function for each request.
type hookPolicy func()

func (f hookPolicy) Do(req *policy.Request) (*http.Response, error) {
	f()
	return req.Next()
}

// panickingCredential is a credential that may panic, and whose tokens expire at once.
type panickingCredential struct {
	azcore.TokenCredential
	maybe func()
}

func (p panickingCredential) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	p.maybe()
	token, err := p.TokenCredential.GetToken(ctx, o)
	token.ExpiresOn = time.Now()
	return token, err
}
