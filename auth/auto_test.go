package auth_test

import (
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
	"github.com/stretchr/testify/require"
)

// usedNames returns the names of the used links.
func usedNames(e auth.Explanation) (names []string) {
	for _, l := range e.Links {
		if l.Used {
			names = append(names, l.Name)
		}
	}
	return names
}

// Auto tries its links in a fixed order.
func TestAutoChain(t *testing.T) {
	type v = map[string]string
	tools := []string{"az", "azd", "Azure PowerShell"}
	who := v{"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c"}
	with := func(variables v) v {
		for name, value := range who {
			variables[name] = value
		}
		return variables
	}
	for _, c := range []struct {
		variables v
		options   auth.Options
		want      []string
	}{
		{v{}, auth.Options{}, append([]string{"managed identity"}, tools...)},
		{who, auth.Options{}, append([]string{"managed identity"}, tools...)},
		{v{"APP_ENV": "staging"}, auth.Options{}, []string{"managed identity"}},
		{v{"APP_ENV": "production"}, auth.Options{}, []string{"managed identity"}},
		{v{"APP_ENV": "production"}, auth.Options{Environment: "test"}, append([]string{"managed identity"}, tools...)},
		{v{}, auth.Options{Environment: "stage"}, []string{"managed identity"}},
		{with(v{"AZURE_CLIENT_SECRET": "s", "APP_ENV": "prod"}), auth.Options{}, []string{"environment", "managed identity"}},
		{with(v{"AZURE_CLIENT_CERTIFICATE_PATH": "p", "APP_ENV": "prod"}), auth.Options{}, []string{"environment", "managed identity"}},
		{with(v{"AZURE_FEDERATED_TOKEN_FILE": "f", "APP_ENV": "prod"}), auth.Options{}, []string{"workload identity", "managed identity"}},
		{with(v{"ACTIONS_ID_TOKEN_REQUEST_URL": "https://h", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "t", "APP_ENV": "prod"}), auth.Options{}, []string{"workload identity", "managed identity"}},
		{v{"ACTIONS_ID_TOKEN_REQUEST_URL": "https://h", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "t", "APP_ENV": "prod"}, auth.Options{}, []string{"managed identity"}},
		{v{"AZURE_FEDERATED_TOKEN_FILE": "f", "AZURE_CLIENT_ID": "c", "APP_ENV": "prod"}, auth.Options{}, []string{"managed identity"}},
		{v{"APP_ENV": "prod"}, auth.Options{WorkloadIdentity: auth.WorkloadIdentityOptions{TenantID: "t", ClientID: "c", TokenFilePath: "f"}}, []string{"workload identity", "managed identity"}},
		{with(v{"AZURE_CLIENT_SECRET": "s", "AZURE_FEDERATED_TOKEN_FILE": "f"}), auth.Options{}, append([]string{"environment", "workload identity", "managed identity"}, tools...)},
	} {
		setAll(t, c.variables)
		c.options.Mode = auth.Auto
		e := auth.Explain(c.options)
		require.NoError(t, e.Err)
		require.Equal(t, c.want, usedNames(e), e)
	}
}

// A secret without its tenant is a mistake: Auto does not continue with another identity.
func TestAutoRefusesHalfAnEnvironment(t *testing.T) {
	setAll(t, map[string]string{"AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s3cret"})
	_, err := auth.New(auth.Options{Mode: auth.Auto})
	requireInvalid(t, err, "auth.Options.ServicePrincipal.TenantID")
	require.ErrorContains(t, err, "AZURE_TENANT_ID")
	requireInvalid(t, auth.Explain(auth.Options{Mode: auth.Auto}).Err, "auth.Options.ServicePrincipal.TenantID")
}

func TestExplain(t *testing.T) {
	setAll(t, map[string]string{"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s3cret", "APP_ENV": "Production"})
	require.Equal(t, strings.TrimSpace(`
auth: mode Auto, https://login.microsoftonline.com/
  1. environment: client c of tenant t, with a secret
  -  workload identity: left out: AZURE_FEDERATED_TOKEN_FILE and ACTIONS_ID_TOKEN_REQUEST_URL are not set
  2. managed identity: user-assigned, client c, if the metadata service answers within 1s
  -  developer tools: left out: APP_ENV=Production`), auth.Explain(auth.Options{Mode: auth.Auto}).String())
	require.Equal(t, "auth: mode Development\n"+
		`  invalid auth.Options.Mode "Development": want another mode in production: APP_ENV=Production`,
		auth.Explain(auth.Options{Mode: auth.Development}).String())
}

// A job's token is for the audience of the cloud, or for the audience in the options.
func TestAudience(t *testing.T) {
	clearEnvironment(t)
	server := authtest.StartInMemory(t)
	job := server.GitHubActions()
	for audience, o := range map[string]auth.Options{
		"api://AzureADTokenExchange":      {},
		"api://AzureADTokenExchangeUSGov": {Cloud: auth.AzureGovernment},
		"api://AzureADTokenExchangeChina": {Cloud: auth.AzureChina},
		"mine":                            {WorkloadIdentity: auth.WorkloadIdentityOptions{Audience: "mine"}},
	} {
		asked := ""
		o.Mode, o.AuthorityHost = job.Mode, job.AuthorityHost
		o.WorkloadIdentity.TenantID, o.WorkloadIdentity.ClientID = authtest.TenantID, authtest.ClientID
		o.Client.Transport = transport(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Has("audience") {
				asked = r.URL.Query().Get("audience")
			}
			return job.Client.Transport.Do(r)
		})
		credential, err := auth.New(o)
		require.NoError(t, err)
		_, _ = credential.GetToken(t.Context(), request()) // the server accepts only one of the audiences
		require.Equal(t, audience, asked)
		require.Contains(t, auth.Explain(o).String(), "for "+audience)
	}
}

// auto returns options for mode Auto with a server's transport and authority.
func auto(from auth.Options) auth.Options {
	o := auth.Options{Mode: auth.Auto, AuthorityHost: from.AuthorityHost, Environment: from.Environment}
	o.Client = from.Client
	return o
}

// Auto gets a token from each of its links.
func TestAutoGetsTokens(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, *authtest.Server) auth.Options{
		"environment with a secret": func(t *testing.T, server *authtest.Server) auth.Options {
			o := server.ClientSecret()
			t.Setenv("AZURE_TENANT_ID", o.ServicePrincipal.TenantID)
			t.Setenv("AZURE_CLIENT_ID", o.ServicePrincipal.ClientID)
			t.Setenv("AZURE_CLIENT_SECRET", o.ServicePrincipal.ClientSecret)
			return auto(o)
		},
		"environment with a certificate": func(t *testing.T, server *authtest.Server) auth.Options {
			o := server.Certificate()
			t.Setenv("AZURE_TENANT_ID", o.ServicePrincipal.TenantID)
			t.Setenv("AZURE_CLIENT_ID", o.ServicePrincipal.ClientID)
			t.Setenv("AZURE_CLIENT_CERTIFICATE_PATH", o.ServicePrincipal.CertificatePath)
			t.Setenv("AZURE_CLIENT_CERTIFICATE_PASSWORD", o.ServicePrincipal.CertificatePassword)
			return auto(o)
		},
		"workload identity": func(t *testing.T, server *authtest.Server) auth.Options {
			o := server.WorkloadIdentity()
			t.Setenv("AZURE_TENANT_ID", o.WorkloadIdentity.TenantID)
			t.Setenv("AZURE_CLIENT_ID", o.WorkloadIdentity.ClientID)
			t.Setenv("AZURE_FEDERATED_TOKEN_FILE", o.WorkloadIdentity.TokenFilePath)
			return auto(o)
		},
		"GitHub Actions": func(t *testing.T, server *authtest.Server) auth.Options {
			o := server.GitHubActions()
			t.Setenv("AZURE_TENANT_ID", o.WorkloadIdentity.TenantID)
			t.Setenv("AZURE_CLIENT_ID", o.WorkloadIdentity.ClientID)
			return auto(o)
		},
		"managed identity": func(t *testing.T, server *authtest.Server) auth.Options {
			o := server.ManagedIdentity()
			t.Setenv("AZURE_CLIENT_ID", o.ManagedIdentity.ClientID)
			return auto(o)
		},
		"az, where there is no metadata service": func(_ *testing.T, server *authtest.Server) auth.Options {
			o := auto(server.Development())
			o.Client.Transport = transport(func(*http.Request) (*http.Response, error) { return nil, os.ErrNotExist })
			return o
		},
	} {
		t.Run(name, func(t *testing.T) {
			clearEnvironment(t)
			server := authtest.Start(t)
			credential, err := auth.New(prepare(t, server))
			require.NoError(t, err)
			for range 2 {
				token, err := credential.GetToken(t.Context(), request())
				require.NoError(t, err)
				require.NoError(t, server.Check(token.Token, audience))
			}
		})
	}
}

// T121: a metadata service that does not answer within a second may only be slow. Auto stops waiting,
// and reports the identity as unavailable, not as denied: the service may answer the next time.
func TestTrap_T121_ASilentMetadataServiceRefusesNobody(t *testing.T) {
	clearEnvironment(t)
	synctest.Test(t, func(t *testing.T) {
		o := auth.Options{Mode: auth.Auto, Environment: "production"}
		o.Client.Transport = transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		credential, err := auth.New(o)
		require.NoError(t, err)
		begun := time.Now()
		_, err = credential.GetToken(t.Context(), request())
		requireUnavailable(t, err)
		require.ErrorContains(t, err, "metadata service")
		require.Equal(t, time.Second, time.Since(begun))
	})
}

// If a metadata service answers a single probe, Auto requests tokens from that service.
func TestAutoAsksTheMetadataService(t *testing.T) {
	clearEnvironment(t)
	var probes, requests atomic.Int32
	o := auth.Options{Mode: auth.Auto, Environment: "production"}
	o.ManagedIdentity.ClientID = "of-this-test-alone"
	o.Client.Transport = transport(func(r *http.Request) (*http.Response, error) {
		w := newResponse(r)
		if r.Header.Get("Metadata") == "" {
			probes.Add(1)
			w.StatusCode = http.StatusBadRequest
			return w, nil
		}
		requests.Add(1)
		require.Equal(t, "169.254.169.254", r.URL.Host)
		require.Equal(t, "of-this-test-alone", r.URL.Query().Get("client_id"))
		return body(w, `{"access_token":"t","expires_in":"60","resource":"r","token_type":"Bearer"}`), nil
	})
	credential, err := auth.New(o)
	require.NoError(t, err)
	for range 3 {
		token, err := credential.GetToken(t.Context(), request())
		require.NoError(t, err)
		require.Equal(t, "t", token.Token)
	}
	require.EqualValues(t, 1, probes.Load())
	require.EqualValues(t, 3, requests.Load())
}

// An answer from a proxy at the metadata service's address does not stop the chain.
func TestAutoGoesOnFromAProxy(t *testing.T) {
	clearEnvironment(t)
	server := authtest.Start(t)
	o := auto(server.Development())
	o.Client.Transport = transport(func(r *http.Request) (*http.Response, error) {
		return body(newResponse(r), "<html>welcome</html>"), nil
	})
	credential, err := auth.New(o)
	require.NoError(t, err)
	token, err := credential.GetToken(t.Context(), request())
	require.NoError(t, err)
	require.NoError(t, server.Check(token.Token, audience))
}

// A refused identity ends the chain: the next link would be another identity.
func TestAutoStopsAtARefusal(t *testing.T) {
	clearEnvironment(t)
	server := authtest.Start(t)
	o := server.ClientSecret()
	t.Setenv("AZURE_TENANT_ID", o.ServicePrincipal.TenantID)
	t.Setenv("AZURE_CLIENT_ID", o.ServicePrincipal.ClientID)
	t.Setenv("AZURE_CLIENT_SECRET", "another")
	server.Development()
	credential, err := auth.New(auto(o))
	require.NoError(t, err)
	_, err = credential.GetToken(t.Context(), request())
	requireDenied(t, err)
	require.Empty(t, server.Issued())
}

// If a developers' tool fails, the next tool is tried.
func TestDevelopmentAsksTheNextTool(t *testing.T) {
	clearEnvironment(t)
	server := authtest.Start(t)
	options := server.Development()
	server.Fail(http.StatusUnauthorized)
	dir, _, _ := strings.Cut(os.Getenv("PATH"), string(os.PathListSeparator))
	answer := `{"token":"azd-token","expiresOn":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`
	require.NoError(t, os.WriteFile(dir+"/azd", []byte("#!/bin/sh\necho '"+answer+"'\n"), 0o700)) //nolint:gosec // a program
	credential, err := auth.New(options)
	require.NoError(t, err)
	token, err := credential.GetToken(t.Context(), request())
	require.NoError(t, err)
	require.Equal(t, "azd-token", token.Token)
}

// The link that returned a token is used from then on, even after a failure: the next link would be
// another identity.
func TestTheLinkThatHadATokenIsAskedFromThenOn(t *testing.T) {
	clearEnvironment(t)
	server := authtest.Start(t)
	options := server.Development()
	dir, _, _ := strings.Cut(os.Getenv("PATH"), string(os.PathListSeparator))
	answer := `{"token":"azd-token","expiresOn":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`
	require.NoError(t, os.WriteFile(dir+"/azd", []byte("#!/bin/sh\necho '"+answer+"'\n"), 0o700)) //nolint:gosec // a program
	credential, err := auth.New(options)
	require.NoError(t, err)
	_, err = credential.GetToken(t.Context(), request())
	require.NoError(t, err)
	require.Len(t, server.Issued(), 1, "by az")
	server.Fail(http.StatusUnauthorized)
	_, err = credential.GetToken(t.Context(), request())
	requireDenied(t, err)
}

// If no tool has a signed-in user, the error tells the developer to sign in.
func TestDevelopmentWithoutAnybody(t *testing.T) {
	clearEnvironment(t)
	server := authtest.Start(t)
	options := server.Development()
	server.Fail(http.StatusUnauthorized)
	t.Setenv("PATH", strings.SplitN(os.Getenv("PATH"), string(os.PathListSeparator), 2)[0]+":/bin")
	credential, err := auth.New(options)
	require.NoError(t, err)
	_, err = credential.GetToken(t.Context(), request())
	requireDenied(t, err)
	require.ErrorContains(t, err, "az login")
	require.NotContains(t, err.Error(), "\n")
	require.Equal(t, 1, server.Requests())
}
