package authtest_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const audience = "https://cosmos.azure.com"

func token(t *testing.T, options auth.Options) (string, error) {
	t.Helper()
	credential, err := auth.New(options)
	require.NoError(t, err)
	got, err := credential.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{audience + "/.default"}})
	return got.Token, err
}

// A token is valid for its audience and its lifetime, and only at the server that issued the token.
func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, other := authtest.StartInMemory(t), authtest.StartInMemory(t)
		server.SetLifetime(10 * time.Second)
		good, err := token(t, server.ClientSecret())
		require.NoError(t, err)
		require.NoError(t, server.Check(good, audience))
		require.ErrorContains(t, server.Check(good, "https://storage.azure.com"), "asked for at https://storage")
		require.ErrorContains(t, other.Check(good, audience), "not issued here")
		require.Error(t, server.Check("", audience))
		require.Error(t, server.Check("a.b.c", audience))
		time.Sleep(10*time.Second - 1)
		require.NoError(t, server.Check(good, audience))
		time.Sleep(time.Nanosecond)
		require.ErrorContains(t, server.Check(good, audience), "expired")
	})
}

// The server refuses wrong secrets, certificates, tenants and tokens of other issuers.
func TestRefusals(t *testing.T) {
	other := authtest.Start(t)
	for name, change := range map[string]func(*authtest.Server) auth.Options{
		"secret": func(s *authtest.Server) auth.Options {
			o := s.ClientSecret()
			o.ServicePrincipal.ClientSecret = "wrong"
			return o
		},
		"client": func(s *authtest.Server) auth.Options {
			o := s.ClientSecret()
			o.ServicePrincipal.ClientID = "wrong"
			return o
		},
		"tenant": func(s *authtest.Server) auth.Options {
			o := s.ClientSecret()
			o.ServicePrincipal.TenantID = "wrong"
			return o
		},
		"client with a certificate": func(s *authtest.Server) auth.Options {
			o := s.Certificate()
			o.ServicePrincipal.ClientID = "wrong"
			return o
		},
		"token of another issuer": func(s *authtest.Server) auth.Options {
			o := s.WorkloadIdentity()
			o.WorkloadIdentity.TokenFilePath = other.WorkloadIdentity().WorkloadIdentity.TokenFilePath
			return o
		},
		"managed identity": func(s *authtest.Server) auth.Options {
			o := s.ManagedIdentity()
			o.ManagedIdentity.ClientID = "wrong"
			return o
		},
		"managed identity's header": func(s *authtest.Server) auth.Options {
			o := s.ManagedIdentity()
			t.Setenv("IDENTITY_HEADER", "wrong")
			return o
		},
		"job": func(s *authtest.Server) auth.Options {
			o := s.GitHubActions()
			t.Setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "wrong")
			return o
		},
	} {
		server := authtest.Start(t)
		_, err := token(t, change(server))
		require.Error(t, err, name)
		require.Empty(t, server.Issued(), name)
		require.Equal(t, 1, server.Requests(), name)
	}
}

// Fail takes effect in all modes, until Fail(0).
func TestFail(t *testing.T) {
	authtest.Each(t, func(t *testing.T, server *authtest.Server, options auth.Options) {
		options.Client.Retry.MaxRetries = -1
		server.Fail(http.StatusUnauthorized)
		_, err := token(t, options)
		require.Error(t, err)
		require.Equal(t, 1, server.Requests())
		require.Empty(t, server.Issued())
		server.Fail(0)
		good, err := token(t, options)
		require.NoError(t, err)
		require.NoError(t, server.Check(good, audience))
		require.Contains(t, server.Secrets(), good)
	})
}

// Each server has its own object ID.
func TestObjectID(t *testing.T) {
	one, other := authtest.StartInMemory(t), authtest.StartInMemory(t)
	require.NotEqual(t, one.ObjectID(), other.ObjectID())
	require.Len(t, strings.Split(one.ObjectID(), "-"), 5)
	require.Len(t, one.ObjectID(), 36)
}
