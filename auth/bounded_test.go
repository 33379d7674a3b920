package auth

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
)

// silentCredential is a credential that blocks until its context ends, and returns the context's cause.
type silentCredential struct{}

func (silentCredential) GetToken(ctx context.Context, _ policy.TokenRequestOptions) (azcore.AccessToken, error) {
	<-ctx.Done()
	return azcore.AccessToken{}, context.Cause(ctx)
}

// A request for a token ends when its context or the client ends, and after ten seconds at the latest.
func TestBoundedRequestsForTokensEnd(t *testing.T) {
	for what, test := range map[string]struct{ caller, client, want time.Duration }{
		"caller": {3 * time.Second, time.Hour, 2850 * time.Millisecond},
		"client": {time.Hour, 2 * time.Second, 2 * time.Second},
		"bound":  {time.Hour, time.Hour, 9750 * time.Millisecond},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lifetime, end := context.WithTimeout(t.Context(), test.client)
				defer end()
				ctx, cancel := context.WithTimeoutCause(t.Context(), test.caller, &leasing.LostError{Reason: leasing.LostExpired})
				defer cancel()
				began := time.Now()
				_, err := ForService(lifetime, silentCredential{}, "").GetToken(ctx, policy.TokenRequestOptions{})
				require.Equal(t, test.want, time.Since(began))
				require.NotErrorIs(t, err, leasing.ErrLost, "the cause is the caller's own")
				if what == "client" {
					require.ErrorIs(t, err, context.Canceled)
				} else {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
			})
		})
	}
}

// T118: a token is requested for the credential's own scope, whatever the client requests.
func TestTrap_T118_AClientRequestsNoOtherScope(t *testing.T) {
	var asked []string
	asking := credentialFunc(func(_ context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
		asked = options.Scopes
		return azcore.AccessToken{}, nil
	})
	for own, want := range map[string]string{"own": "own", "": "other"} {
		_, err := ForService(t.Context(), asking, own).GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{"other"}})
		require.NoError(t, err)
		require.Equal(t, []string{want}, asked)
	}
}

// UnmarshalText reads the name of a mode, as in the query of a URL.
func TestOptionsAreReadFromText(t *testing.T) {
	t.Setenv("LEASING_AUTH_MODE", "managedidentity")
	for _, text := range []string{"ManagedIdentity", "managedidentity", "Environment", "environment"} {
		var o Options
		require.NoError(t, o.UnmarshalText([]byte(text)))
		require.Equal(t, ManagedIdentity, o.Mode)
		require.ErrorIs(t, o.UnmarshalText([]byte(text)), leasing.ErrInvalid, "two modes")
	}
	require.ErrorIs(t, new(Options).UnmarshalText([]byte("x")), leasing.ErrInvalid)
	t.Setenv("LEASING_AUTH_MODE", "x")
	require.ErrorIs(t, new(Options).UnmarshalText([]byte("Environment")), leasing.ErrInvalid)
}
