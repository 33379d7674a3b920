package cosmoslease

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
)

// failingCredential is a credential that fails with the source's error. Its tokens expire at once.
type failingCredential struct {
	bearer
	source *credentialtest.Source
}

func (f *failingCredential) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	if err := f.source.Err(ctx); err != nil {
		return azcore.AccessToken{}, err
	}
	return f.bearer.GetToken(ctx, o)
}

// T119: an error from the application's credential is not reported as an error from the account.
func TestTrap_T119_CredentialsFail(t *testing.T) {
	account := cosmostest.New(cosmostest.Options{Token: func(string) error { return nil }})
	account.AddContainer(testDatabase, testContainer, "/id")
	service := httptest.NewServer(account)
	t.Cleanup(service.Close)
	source := &credentialtest.Source{}
	credentialtest.SourcesOfCredentials(t, credentialtest.SourceCheck{
		Source: source, TTL: time.Minute, Function: true, Unnamed: true, // azcosmos requests its first token without a caller's context
		Open: func(t testing.TB) abstractions.Provider {
			return openTest(t, Options{
				Endpoint: service.URL, Database: testDatabase, Container: testContainer,
				Credential: &failingCredential{bearer{life: time.Second}, source},
			})
		},
	})
}

// T118: neither a key's signature nor a token is sent to another host that an account's answer
// names.
func TestTrap_T118_WhatAnAnswerNamesGetsNoCredentials(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host was sent %s %s, Authorization %q", r.Method, r.URL, r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	account := cosmostest.New(cosmostest.Options{Key: testKey, Token: func(string) error { return nil }})
	account.AddContainer(testDatabase, testContainer, "/id")
	other, err := url.Parse(elsewhere.URL)
	require.NoError(t, err)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			r.Host = other.Host // the answer names this host
		}
		account.ServeHTTP(w, r)
	}))
	defer service.Close()
	for _, o := range []Options{{Key: testKey}, {Credential: &bearer{life: time.Hour}}} {
		o.Endpoint, o.Database, o.Container = service.URL, testDatabase, testContainer
		p := openTest(t, o)
		g, err := p.Acquire(t.Context(), acquireRequest(abstractions.NewID(), "a", time.Minute))
		require.NoError(t, err)
		_, err = p.Renew(t.Context(), abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: g.TTL, State: g.State})
		require.NoError(t, err)
	}
}

func TestTheAccountsHosts(t *testing.T) {
	for to, want := range map[string]bool{
		"https://acct.documents.azure.com":                     true,
		"https://acct.documents.azure.com:443/":                true,
		"https://ACCT-westus.documents.azure.com:443/":         true,
		"http://acct.documents.azure.com:443/":                 false,
		"https://acct.documents.azure.com:8443/":               false,
		"https://acctwestus.documents.azure.com/":              false,
		"https://other-westus.documents.azure.com/":            false,
		"https://acct-westus.documents.azure.com.example.org/": false,
		"https://acct-westus.example.org/":                     false,
		"https://127.0.0.1/":                                   false,
	} {
		account, err := url.Parse("https://acct.documents.azure.com")
		require.NoError(t, err)
		address, err := url.Parse(to)
		require.NoError(t, err)
		require.Equal(t, want, owns(account, address), to)
	}
	emulator, other := &url.URL{Scheme: "http", Host: "localhost:8081"}, &url.URL{Scheme: "http", Host: "127.0.0.1:8081"}
	require.True(t, owns(emulator, other))
	require.False(t, owns(emulator, &url.URL{Scheme: "http", Host: "127.0.0.1:8082"}))
}
