package auth_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
	"github.com/stretchr/testify/require"
)

func requireUnavailable(t *testing.T, err error) {
	t.Helper()
	var failed *auth.Error
	require.ErrorAs(t, err, &failed)
	require.ErrorIs(t, err, leasing.ErrUnavailable)
	require.NotErrorIs(t, err, leasing.ErrDenied)
}

func requireDenied(t *testing.T, err error) {
	t.Helper()
	var failed *auth.Error
	require.ErrorAs(t, err, &failed)
	require.ErrorIs(t, err, leasing.ErrDenied)
	require.NotErrorIs(t, err, leasing.ErrUnavailable)
}

// Each HTTP status from an authority or a managed identity's endpoint becomes an error of package
// leasing, even after azcore has wrapped the error, and azcore does not retry the request.
func TestStatuses(t *testing.T) {
	for status, want := range map[int]error{
		http.StatusBadRequest:          leasing.ErrDenied,
		http.StatusUnauthorized:        leasing.ErrDenied,
		http.StatusForbidden:           leasing.ErrDenied,
		http.StatusNotFound:            leasing.ErrUnavailable,
		http.StatusRequestTimeout:      leasing.ErrUnavailable,
		http.StatusGone:                leasing.ErrUnavailable,
		http.StatusTooManyRequests:     leasing.ErrThrottled,
		http.StatusInternalServerError: leasing.ErrUnavailable,
		http.StatusBadGateway:          leasing.ErrUnavailable,
		http.StatusServiceUnavailable:  leasing.ErrThrottled,
		http.StatusGatewayTimeout:      leasing.ErrUnavailable,
	} {
		for name, options := range inMemory {
			t.Run(name+" "+http.StatusText(status), func(t *testing.T) {
				clearEnvironment(t)
				synctest.Test(t, func(t *testing.T) {
					server := authtest.StartInMemory(t)
					credential, err := auth.New(options(server))
					require.NoError(t, err)
					server.Fail(status)
					_, err = credential.GetToken(t.Context(), request())
					var failed *auth.Error
					require.ErrorAs(t, err, &failed)
					for _, sentinel := range []error{leasing.ErrDenied, leasing.ErrUnavailable, leasing.ErrThrottled} {
						is := errors.Is(sentinel, want) || errors.Is(want, leasing.ErrThrottled) && errors.Is(sentinel, leasing.ErrUnavailable)
						require.Equal(t, is, errors.Is(err, sentinel), "%v: %v", sentinel, err)
					}
					requests := server.Requests()
					requireSentOnce(t, service(server, credential, func(string) {}), want)
					require.LessOrEqual(t, server.Requests(), 2*requests, "azcore did not retry what azidentity had")
				})
			})
		}
	}
}

func requireSentOnce(t *testing.T, client runtime.Pipeline, want error) {
	t.Helper()
	r, err := runtime.NewRequest(t.Context(), http.MethodPut, "https://service.invalid/lease")
	require.NoError(t, err)
	_, err = client.Do(r) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, want)
}

// There is one attempt, except that azidentity retries requests to a managed identity's endpoint.
func TestAttempts(t *testing.T) {
	for name, options := range inMemory {
		t.Run(name, func(t *testing.T) {
			clearEnvironment(t)
			synctest.Test(t, func(t *testing.T) {
				server := authtest.StartInMemory(t)
				credential, err := auth.New(options(server))
				require.NoError(t, err)
				server.Fail(http.StatusInternalServerError)
				_, err = credential.GetToken(t.Context(), request())
				requireUnavailable(t, err)
				require.Equal(t, name == "ManagedIdentity", server.Requests() > 1, server.Requests())
			})
		})
	}
}

// The text of an error is one line with Entra ID's own message.
func TestErrorText(t *testing.T) {
	clearEnvironment(t)
	server := authtest.Start(t)
	options := server.ClientSecret()
	options.ServicePrincipal.ClientSecret = "another"
	credential, err := auth.New(options)
	require.NoError(t, err)
	_, err = credential.GetToken(t.Context(), request())
	requireDenied(t, err)
	require.EqualError(t, err, "no token (auth mode ServicePrincipal): access denied: service principal: status 401: invalid_client: AADSTS7000215: Invalid client secret provided.")
	var failed *azidentity.AuthenticationFailedError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, http.StatusUnauthorized, failed.RawResponse.StatusCode)
}

// Retry-After reaches the caller, who schedules the next request.
func TestRetryAfter(t *testing.T) {
	clearEnvironment(t)
	server := authtest.StartInMemory(t)
	options := server.ClientSecret()
	inner := options.Client.Transport
	options.Client.Retry = policy.RetryOptions{MaxRetries: -1}
	options.Client.Transport = transport(func(r *http.Request) (*http.Response, error) {
		response, err := inner.Do(r)
		if response != nil {
			response.Header.Set("Retry-After", "17")
		}
		return response, err
	})
	credential, err := auth.New(options)
	require.NoError(t, err)
	server.Fail(http.StatusTooManyRequests)
	_, err = credential.GetToken(t.Context(), request())
	var throttled *leasing.ThrottledError
	require.ErrorAs(t, err, &throttled)
	require.Equal(t, 17*time.Second, throttled.RetryAfter)
}

// The error wraps the error of an ended context, although azidentity keeps only its text.
func TestEndedContext(t *testing.T) {
	clearEnvironment(t)
	synctest.Test(t, func(t *testing.T) {
		server := authtest.StartInMemory(t)
		options := server.ClientSecret()
		options.Client.Transport = transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		credential, err := auth.New(options)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = credential.GetToken(ctx, request())
		requireUnavailable(t, err)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		ctx, stop := context.WithCancel(t.Context())
		stop()
		_, err = credential.GetToken(ctx, request())
		require.ErrorIs(t, err, context.Canceled)
	})
}

// An unreachable server is reported as unavailable.
func TestNoAnswer(t *testing.T) {
	clearEnvironment(t)
	for name, options := range inMemory {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				settings := options(authtest.StartInMemory(t))
				settings.Client.Transport = transport(func(*http.Request) (*http.Response, error) {
					return nil, errors.New("connection refused")
				})
				credential, err := auth.New(settings)
				require.NoError(t, err)
				_, err = credential.GetToken(t.Context(), request())
				requireUnavailable(t, err)
				require.ErrorContains(t, err, "connection refused")
			})
		})
	}
}
