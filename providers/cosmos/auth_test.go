package cosmoslease

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// audience is the audience of tokens for the account: its own address.
const audience = "http://127.0.0.1"

// Each auth mode gets tokens, and keeps a lease beyond the expiry of the first token.
func TestEachAuthModeKeepsALease(t *testing.T) {
	authtest.Each(t, func(t *testing.T, server *authtest.Server, options auth.Options) {
		server.SetLifetime(2 * time.Second)
		account := cosmostest.New(cosmostest.Options{Token: func(token string) error { return server.Check(token, audience) }})
		account.AddContainer(testDatabase, testContainer, "/id")
		service := httptest.NewServer(account)
		defer service.Close()
		p := openTest(t, Options{Endpoint: service.URL, Auth: options, Database: testDatabase, Container: testContainer})
		m := managerOf(t, p, leasing.Options{})
		lease, err := m.With(abstractions.AcquireOptions{TTL: time.Minute, RenewCadence: 500 * time.Millisecond}).TryAcquire(t.Context(), "n")
		require.NoError(t, err)
		require.Eventually(t, func() bool { return len(server.Issued()) >= 3 && lease.Renewals() >= 4 }, time.Minute, 10*time.Millisecond)
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Release(t.Context()))
	})
}

// runHeldLease runs test in a bubble, with a held lease, and with a server whose tokens have the lifetime life.
func runHeldLease(t *testing.T, life time.Duration, test func(t *testing.T, server *authtest.Server, account *cosmostest.Account, lease *leasing.Lease)) {
	synctest.Test(t, func(t *testing.T) {
		server := authtest.StartInMemory(t)
		server.SetLifetime(life)
		b := newBed(t, cosmostest.Options{Token: func(token string) error { return server.Check(token, "http://localhost") }})
		p := b.process(func(o *Options) { o.Key, o.Auth = "", server.ClientSecret() })
		lease, err := managerOf(t, p, leasing.Options{}).TryAcquire(t.Context(), "n")
		require.NoError(t, err)
		test(t, server, b.account, lease)
	})
}

// T48: a lease is held for an hour with tokens that are valid for ten minutes.
func TestTrap_T48_TokensAreRefreshed(t *testing.T) {
	runHeldLease(t, 10*time.Minute, func(t *testing.T, server *authtest.Server, _ *cosmostest.Account, lease *leasing.Lease) {
		time.Sleep(time.Hour)
		require.NoError(t, lease.Err())
		require.GreaterOrEqual(t, len(server.Issued()), 6)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// If Entra ID returns no new token, the lease continues while the old token is valid, and
// then for as long as the lease is trusted. If a new token comes in time, the lease
// is not lost.
func TestTrap_T48_ATokenThatExpiresInMidLease(t *testing.T) {
	runHeldLease(t, 10*time.Minute, func(t *testing.T, server *authtest.Server, _ *cosmostest.Account, lease *leasing.Lease) {
		for _, status := range []int{http.StatusServiceUnavailable, http.StatusUnauthorized} {
			server.Fail(status)
			expires := time.Now().Add(10 * time.Minute)
			time.Sleep(4 * time.Minute)
			require.NoError(t, lease.Err(), "before its end")
			server.Fail(0)
			time.Sleep(time.Until(expires) + time.Minute)
			require.NoError(t, lease.Err())
		}
		server.Fail(http.StatusServiceUnavailable)
		<-lease.Done()
		require.ErrorIs(t, context.Cause(lease.Context()), abstractions.ErrLost)
		require.Zero(t, lease.Remaining())
	})
}

// A lease is not lost if the service refuses tokens for a while.
func TestTrap_T48_ATokenThatTheServiceRefuses(t *testing.T) {
	runHeldLease(t, time.Hour, func(t *testing.T, _ *authtest.Server, account *cosmostest.Account, lease *leasing.Lease) {
		for _, status := range []int{401, 403} {
			account.Before(faultOn(cosmostest.ReplaceItem, cosmostest.Fault{Status: status}))
			time.Sleep(8 * time.Second) // shorter than the trust that remains after a failed renewal
			account.Before(nil)
			time.Sleep(time.Minute)
			require.NoError(t, lease.Err())
		}
		require.NoError(t, lease.Release(t.Context()))
	})
}

// slowCredential is a credential that answers after a delay.
type slowCredential struct {
	bearer
	delay time.Duration
}

func (c *slowCredential) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	select {
	case <-time.After(c.delay):
		return c.bearer.GetToken(ctx, o)
	case <-ctx.Done():
		return azcore.AccessToken{}, ctx.Err()
	}
}

// A call ends with its own context, although azcosmos makes it wait for a token that
// another call, with more time, has requested.
func TestCallersDoNotWaitForEachOthersTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, cosmostest.Options{Token: valid})
		credential := &slowCredential{bearer: bearer{life: time.Hour}}
		p := b.process(func(o *Options) { o.Key, o.Credential = "", credential })
		require.NoError(t, p.Ping(t.Context()))
		time.Sleep(2 * time.Hour) // the token is no longer valid
		credential.delay = 5 * time.Second
		patient := make(chan error, 1)
		go func() { patient <- p.Ping(t.Context()) }()
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		requireUnknown(t, p.Ping(ctx))
		require.Equal(t, time.Second, time.Since(began))
		require.NoError(t, <-patient)
	})
}
