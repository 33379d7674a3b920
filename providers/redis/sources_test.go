package redislease

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
)

// failingCredentials are credentials from a source that fails. go-redis passes no context to Subscribe.
type failingCredentials struct{ source *credentialtest.Source }

func (f failingCredentials) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return auth.NewBasicCredentials("default", "secret"), func() error { return nil }, f.source.Err(ctx)
}

// T119: an error from a password source is not reported as a Redis error. Connections are closed to make go-redis ask the source.
func TestTrap_T119_SourcesOfPasswordsFail(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Password: "secret"})
	source := &credentialtest.Source{}
	admin := server.Client(t)
	expire := func() {
		require.NoError(t, admin.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err())
	}
	opened := func(t testing.TB, o Options) abstractions.Provider {
		p, err := Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		return p
	}
	check := credentialtest.SourceCheck{Source: source, TTL: time.Minute, Expire: expire, Unnamed: true}
	t.Run("Credentials", func(t *testing.T) {
		check := check
		check.Function = true
		check.Open = func(t testing.TB) abstractions.Provider {
			return opened(t, Options{URL: "redis://" + server.Addr(), Credentials: failingCredentials{source}})
		}
		credentialtest.SourcesOfCredentials(t, check)
	})
	t.Run("Client", func(t *testing.T) { // go-redis itself calls the function, so the function must not panic
		for ambiguous, retries := range map[bool]int{false: -1, true: 1} {
			check := check
			check.Ambiguous = ambiguous
			check.Open = func(t testing.TB) abstractions.Provider {
				client := redis.NewClient(&redis.Options{
					Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: retries,
					CredentialsProviderContext: func(ctx context.Context) (string, string, error) {
						return "default", "secret", source.Err(ctx)
					},
				})
				t.Cleanup(func() { require.NoError(t, client.Close()) })
				return opened(t, Options{Client: client})
			}
			credentialtest.SourcesOfCredentials(t, check)
		}
	})
}
