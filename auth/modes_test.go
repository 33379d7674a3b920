package auth_test

import (
	"context"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
	"github.com/stretchr/testify/require"
)

// Each mode gets a token that the service accepts, and sends nothing before the first GetToken.
func TestModes(t *testing.T) {
	clearEnvironment(t)
	authtest.Each(t, func(t *testing.T, server *authtest.Server, options auth.Options) {
		require.NoError(t, options.Validate())
		credential, err := auth.New(options)
		require.NoError(t, err)
		require.Zero(t, server.Requests(), "sent at construction")
		token, err := credential.GetToken(t.Context(), request())
		require.NoError(t, err)
		require.NoError(t, server.Check(token.Token, audience))
		require.WithinDuration(t, time.Now().Add(authtest.DefaultLifetime), token.ExpiresOn, time.Minute)
		require.Equal(t, []string{token.Token}, server.Issued())
	})
}

// T48: each mode replaces a token that is about to expire.
func TestTrap_T48_ExpiredTokenIsReplaced(t *testing.T) {
	clearEnvironment(t)
	authtest.Each(t, func(t *testing.T, server *authtest.Server, options auth.Options) {
		credential, err := auth.New(options)
		require.NoError(t, err)
		server.SetLifetime(2 * time.Minute) // azidentity requests a new token within 5 minutes of its expiry
		first, err := credential.GetToken(t.Context(), request())
		require.NoError(t, err)
		second, err := credential.GetToken(t.Context(), request())
		require.NoError(t, err)
		require.NotEqual(t, first.Token, second.Token)
		require.Equal(t, []string{first.Token, second.Token}, server.Issued())
	})
}

// service returns a client of an Azure service that accepts only valid tokens. used is called with
// each accepted token.
func service(server *authtest.Server, credential azcore.TokenCredential, used func(token string)) runtime.Pipeline {
	return runtime.NewPipeline("test", "", runtime.PipelineOptions{
		PerRetry: []policy.Policy{runtime.NewBearerTokenPolicy(credential, []string{scope}, nil)},
	}, &policy.ClientOptions{
		Retry: policy.RetryOptions{MaxRetries: -1},
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			token := r.Header.Get("Authorization")[len("Bearer "):]
			response := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}
			if server.Check(token, audience) != nil {
				response.StatusCode = http.StatusUnauthorized
			} else {
				used(token)
			}
			return response, nil
		}),
	})
}

func call(t *testing.T, client runtime.Pipeline) int {
	t.Helper()
	r, err := runtime.NewRequest(t.Context(), http.MethodPut, "https://service.invalid/lease")
	require.NoError(t, err)
	response, err := client.Do(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// inMemory lists the modes that do not start a program.
var inMemory = map[string]func(*authtest.Server) auth.Options{
	"ClientSecret":     (*authtest.Server).ClientSecret,
	"Certificate":      (*authtest.Server).Certificate,
	"ManagedIdentity":  (*authtest.Server).ManagedIdentity,
	"WorkloadIdentity": (*authtest.Server).WorkloadIdentity,
	"GitHubActions":    (*authtest.Server).GitHubActions,
	"Federated":        (*authtest.Server).Federated,
	"FederatedFile":    (*authtest.Server).FederatedFile,
}

// T48: a holder that renews for a day never sends an expired token, and requests about one token an
// hour, 5 minutes before the old token expires.
func TestTrap_T48_ADayOfRenewals(t *testing.T) {
	for name, options := range inMemory {
		t.Run(name, func(t *testing.T) {
			clearEnvironment(t)
			server := authtest.StartInMemory(t)
			settings := options(server)
			synctest.Test(t, func(t *testing.T) {
				credential, err := auth.New(settings)
				require.NoError(t, err)
				var expires time.Time
				last := ""
				client := service(server, credential, func(token string) {
					if token != last {
						require.True(t, last == "" || time.Until(expires) > 4*time.Minute, "renewed %v before its end", time.Until(expires))
						last, expires = token, time.Now().Add(authtest.DefaultLifetime)
					}
				})
				for range 24 * 2 * 60 {
					require.Equal(t, http.StatusOK, call(t, client))
					time.Sleep(30 * time.Second)
				}
				require.InDelta(t, 24*60/55, len(server.Issued()), 3)
			})
		})
	}
}

// An outage of Entra ID of less than 5 minutes has no effect: no renewal fails or waits.
func TestAnOutageOfFourMinutesIsNotNoticed(t *testing.T) {
	clearEnvironment(t)
	synctest.Test(t, func(t *testing.T) {
		server := authtest.StartInMemory(t)
		credential, err := auth.New(server.ClientSecret())
		require.NoError(t, err)
		client := service(server, credential, func(string) {})
		begun := time.Now()
		callUntil := func(end time.Duration) {
			for time.Since(begun) < end {
				sent := time.Now()
				require.Equal(t, http.StatusOK, call(t, client))
				require.Zero(t, time.Since(sent))
				time.Sleep(time.Second)
			}
		}
		callUntil(54 * time.Minute)
		server.Fail(http.StatusServiceUnavailable)
		callUntil(59 * time.Minute)
		require.InDelta(t, 1+4*2, server.Requests(), 1, "every 30 s")
		server.Fail(0)
		callUntil(62 * time.Minute)
		require.Len(t, server.Issued(), 2)
	})
}

// T48: after Kubernetes has replaced the token in the file, the old token is useless and the new one must be read.
func TestTrap_T48_RotatedFileIsReadAgain(t *testing.T) {
	clearEnvironment(t)
	for name, options := range map[string]func(*authtest.Server) auth.Options{
		"WorkloadIdentity": (*authtest.Server).WorkloadIdentity,
		"FederatedFile":    (*authtest.Server).FederatedFile,
	} {
		t.Run(name, func(t *testing.T) {
			server := authtest.Start(t)
			server.SetLifetime(time.Minute)
			credential, err := auth.New(options(server))
			require.NoError(t, err)
			_, err = credential.GetToken(t.Context(), request())
			require.NoError(t, err)
			server.Rotate()
			_, err = credential.GetToken(t.Context(), request())
			require.NoError(t, err)
		})
	}
}

// A token file may appear after the start of the program. Until then a request fails as
// unavailable, not as denied.
func TestFileThatComesLater(t *testing.T) {
	clearEnvironment(t)
	server := authtest.Start(t)
	options := server.WorkloadIdentity()
	there := options.WorkloadIdentity.TokenFilePath
	require.NoError(t, os.Rename(there, there+".away"))
	credential, err := auth.New(options)
	require.NoError(t, err)
	_, err = credential.GetToken(t.Context(), request())
	requireUnavailable(t, err)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, there)

	require.NoError(t, os.WriteFile(there, []byte("\n"), 0o600))
	_, err = credential.GetToken(t.Context(), request())
	requireUnavailable(t, err)
	require.ErrorContains(t, err, "empty")

	require.NoError(t, os.Rename(there+".away", there))
	_, err = credential.GetToken(t.Context(), request())
	require.NoError(t, err)
}

// The function of a federated credential is called for each token, and its error is wrapped.
func TestTokenFunction(t *testing.T) {
	clearEnvironment(t)
	server := authtest.Start(t)
	server.SetLifetime(time.Minute)
	options := server.Federated()
	whole, calls := options.FederatedCredential.Token, 0
	var failure error
	options.FederatedCredential.Token = func(ctx context.Context) (string, error) {
		calls++
		if failure != nil {
			return "", failure
		}
		return whole(ctx)
	}
	credential, err := auth.New(options)
	require.NoError(t, err)
	require.Zero(t, calls)
	for range 2 {
		_, err = credential.GetToken(t.Context(), request())
		require.NoError(t, err)
	}
	require.Equal(t, 2, calls)
	failure = os.ErrDeadlineExceeded
	_, err = credential.GetToken(t.Context(), request())
	requireUnavailable(t, err)
	require.ErrorIs(t, err, failure)
}
