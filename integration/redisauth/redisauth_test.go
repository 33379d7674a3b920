// Package redisauth checks that leases on Redis outlive the tokens that their
// connections were signed in with.
package redisauth

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
	"github.com/distributedleasing/leasing/auth/redisauth"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	variable = "LEASING_TEST_REDIS"
	timeout  = time.Minute
	lifetime = 3 * time.Second // of a token
)

// bed is a Redis that accepts the tokens of a fake Entra ID: an ACL user whose passwords are the
// tokens that have not expired, as in Azure.
type bed struct {
	t     *testing.T
	entra *authtest.Server
	inner azcore.TokenCredential
	admin *redis.Client

	mu     sync.Mutex
	tokens []azcore.AccessToken
}

func newBed(t *testing.T) *bed {
	t.Helper()
	url := servertest.Require(t, variable)
	options, err := redis.ParseURL(url)
	require.NoError(t, err)
	b := &bed{t: t, entra: authtest.Start(t), admin: redis.NewClient(options)}
	b.inner, err = auth.New(b.entra.ClientSecret())
	require.NoError(t, err)
	b.entra.SetLifetime(lifetime)
	t.Cleanup(func() {
		require.NoError(t, b.admin.Do(context.Background(), "acl", "deluser", b.user()).Err())
		require.NoError(t, b.admin.Close())
	})
	return b
}

func (b *bed) user() string { return b.entra.ObjectID() }

// GetToken makes each token a password of the user before the caller has the token.
func (b *bed) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := b.inner.GetToken(ctx, options)
	if err != nil {
		return token, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = append(b.tokens, token)
	rules := []any{"acl", "setuser", b.user(), "on", "resetpass", "~*", "&*", "+@all"}
	for _, t := range b.tokens {
		if time.Now().Before(t.ExpiresOn) {
			rules = append(rules, ">"+t.Token)
		}
	}
	return token, b.admin.Do(ctx, rules...).Err()
}

func (b *bed) issuedTokens() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.tokens)
}

// waitForTokens waits until the given number of further tokens has been issued.
func (b *bed) waitForTokens(more int) {
	b.t.Helper()
	all := b.issuedTokens() + more
	require.Eventually(b.t, func() bool { return b.issuedTokens() >= all }, timeout, 10*time.Millisecond)
}

// disconnect ends all connections of the user, as Azure ends connections whose
// token has expired.
func (b *bed) disconnect() (ended int64) {
	b.t.Helper()
	ended, err := b.admin.ClientKillByFilter(b.t.Context(), "user", b.user()).Result()
	require.NoError(b.t, err)
	return ended
}

// client returns a client that signs in with credentials, and has one connection in addition to
// connections that subscribe.
func (b *bed) client(hooks ...redis.Hook) *redis.Client {
	b.t.Helper()
	credentials, err := redisauth.New(redisauth.Options{Credential: b})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, credentials.Close()) })
	return b.open(&redis.Options{StreamingCredentialsProvider: credentials}, hooks...)
}

func (b *bed) open(o *redis.Options, hooks ...redis.Hook) *redis.Client {
	b.t.Helper()
	from := b.admin.Options()
	o.Network, o.Addr, o.DB = from.Network, from.Addr, from.DB
	o.ContextTimeoutEnabled, o.MaxRetries, o.DialerRetries = true, -1, 1
	client := redis.NewClient(o)
	for _, hook := range hooks {
		client.AddHook(hook)
	}
	b.t.Cleanup(func() { require.NoError(b.t, client.Close()) })
	return client
}

// calls records the names of commands.
type calls struct {
	mu    sync.Mutex
	names []string
	bad   []error // of AUTH
}

func (c *calls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *calls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *calls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.names = append(c.names, strings.ToLower(cmd.Name()))
		if err != nil && strings.EqualFold(cmd.Name(), "auth") {
			c.bad = append(c.bad, err)
		}
		return err
	}
}

func (c *calls) count(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(c.names), func(n string) bool { return n != name }))
}

// One connection outlives several tokens, and is signed in with each.
func TestRedisConnectionIsSignedInAgain(t *testing.T) {
	b, seen := newBed(t), new(calls)
	client := b.client(seen)
	first, err := client.ClientID(t.Context()).Result()
	require.NoError(t, err)
	require.Equal(t, b.user(), client.Do(t.Context(), "acl", "whoami").Val())
	require.Eventually(t, func() bool {
		require.NoError(t, client.Ping(t.Context()).Err())
		return seen.count("auth") >= 4
	}, timeout, 50*time.Millisecond)
	require.Empty(t, seen.bad)
	require.GreaterOrEqual(t, b.issuedTokens(), 3)
	// go-redis opens other connections while it renews the sign-in of this one, but keeps this connection.
	living, err := b.admin.Do(t.Context(), "client", "list", "id", first).Text()
	require.NoError(t, err)
	require.Contains(t, living, "user="+b.user())
}

// T48: a lease outlives the token with which it was acquired. Connections stay open
// across later tokens, and if Redis ends connections, new ones use the present
// token. A waiter, whose subscription ends too, gets the name when it is free.
func TestTrap_T48_RedisLeaseOutlivesItsToken(t *testing.T) {
	b := newBed(t)
	open := func() *leasing.Manager {
		p, err := redislease.Open(t.Context(), redislease.Options{Client: b.client(), Prefix: "redisauth-" + b.user()})
		require.NoError(t, err)
		m, err := leasing.NewManager(p, leasing.Options{TTL: 3 * time.Second})
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, m.Close(context.Background()))
			require.NoError(t, p.Close())
		})
		return m
	}
	holder, waiter := open(), open()
	lease, err := holder.Acquire(t.Context(), "name")
	require.NoError(t, err)
	type result struct {
		lease *leasing.Lease
		err   error
	}
	next := make(chan result, 1)
	go func() {
		l, err := waiter.Acquire(t.Context(), "name")
		next <- result{l, err}
	}()
	require.Eventually(t, func() bool { return lease.Renewals() > 0 }, timeout, 10*time.Millisecond)
	old := b.tokens[0].Token
	for range 2 {
		b.waitForTokens(2) // the first token may be for the other client
		require.NoError(t, lease.Err())
		require.Positive(t, b.disconnect())
		before := lease.Renewals()
		require.Eventually(t, func() bool { return lease.Renewals() > before+1 || lease.Err() != nil }, timeout, 10*time.Millisecond)
		require.NoError(t, lease.Err())
	}
	stale := b.open(&redis.Options{Username: b.user(), Password: old})
	require.ErrorContains(t, stale.Ping(t.Context()).Err(), "WRONGPASS", "the first token is of no use by now")

	require.NoError(t, lease.Release(t.Context()))
	got := <-next
	require.NoError(t, got.err)
	require.Greater(t, got.lease.Token(), lease.Token())
	require.NoError(t, got.lease.Release(t.Context()))
}

// An outage of Entra ID has no effect while the token is valid. After that, calls
// return an error of package leasing.
func TestRedisWithoutEntraID(t *testing.T) {
	b := newBed(t)
	b.entra.SetLifetime(4 * time.Minute) // azidentity requests another token for each client
	client := b.client()
	p, err := redislease.Open(t.Context(), redislease.Options{Client: client, Prefix: "redisauth-" + b.user()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	require.NoError(t, p.Ping(t.Context()))
	b.entra.Fail(http.StatusServiceUnavailable)
	b.disconnect()
	require.Eventually(t, func() bool { return p.Ping(t.Context()) == nil }, timeout, 10*time.Millisecond)

	for status, want := range map[int]error{
		http.StatusServiceUnavailable: leasing.ErrUnavailable,
		http.StatusUnauthorized:       leasing.ErrDenied,
	} {
		b.entra.Fail(status)
		late, err := redislease.Open(t.Context(), redislease.Options{Client: b.client()})
		require.NoError(t, err)
		err = late.Ping(t.Context())
		require.ErrorIs(t, err, want)
		var source *providerkit.CredentialError
		require.ErrorAs(t, err, &source)
		var failed *auth.Error
		require.ErrorAs(t, source.Cause, &failed)
		require.NoError(t, late.Close())
	}
}
