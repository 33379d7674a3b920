package bloblease

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
)

// failingCredential is a credential whose source fails. It records the requested scopes.
type failingCredential struct {
	azcore.TokenCredential
	source *credentialtest.Source
	scopes []string
}

func (f *failingCredential) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	f.scopes = append(f.scopes, o.Scopes...)
	if err := f.source.Err(ctx); err != nil {
		return azcore.AccessToken{}, err
	}
	return f.TokenCredential.GetToken(ctx, o)
}

// T119: an error from the application's credential is not reported as an error from the
// account.
func TestTrap_T119_CredentialsFail(t *testing.T) {
	server, tokens := startAzurite(t, true), authtest.Start(t)
	tokens.SetLifetime(2 * time.Second)
	own, err := auth.New(tokens.ClientSecret())
	require.NoError(t, err)
	source := &credentialtest.Source{}
	o := tokenOptions(t, server, auth.Options{})
	credentialtest.SourcesOfCredentials(t, credentialtest.SourceCheck{
		Source: source, TTL: maxTTL, Function: true,
		Open: func(t testing.TB) abstractions.Provider {
			o := o
			o.Credential = &failingCredential{TokenCredential: own, source: source}
			p, err := Open(t.Context(), o)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, p.Close()) })
			require.NoError(t, p.Ping(t.Context()))
			return p
		},
	})
}

// T118: a 401 answer that names another resource does not make the provider request a
// token for that resource.
func TestTrap_T118_AChallengeNamesNoOtherResource(t *testing.T) {
	own, err := auth.New(authtest.Start(t).ClientSecret())
	require.NoError(t, err)
	credential := &failingCredential{TokenCredential: own, source: &credentialtest.Source{}}
	o := Options{AccountURL: "https://acct.blob.core.windows.net", Container: newContainer(), Credential: credential}
	o.ClientOptions.Transport = transportFunc(func(r *http.Request) (*http.Response, error) {
		answer := faulttest.Answer(r, http.StatusUnauthorized, "")
		answer.Header.Set("WWW-Authenticate", "Bearer authorization_uri=https://login.microsoftonline.com/t/oauth2/authorize resource_id=https://graph.microsoft.com")
		return answer, nil
	})
	p, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	for range 2 {
		require.Error(t, p.Ping(t.Context()))
	}
	require.NotEmpty(t, credential.scopes)
	require.NotContains(t, strings.Join(credential.scopes, " "), "graph")
}
