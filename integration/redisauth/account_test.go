package redisauth

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/redisauth"
	redislease "github.com/distributedleasing/leasing/providers/redis"
)

// The suite runs on a real Azure Managed Redis, if the environment names one: REDIS_ENTRA_ADDRESS is host:port, and the
// identity is that of auth.FromEnvironment. The connections use its tokens.
func TestConformanceRedisAccount(t *testing.T) {
	address := os.Getenv("REDIS_ENTRA_ADDRESS")
	if address == "" {
		t.Skip("no REDIS_ENTRA_ADDRESS with what auth.FromEnvironment reads: see samples/azure/redis.sh")
	}
	identity, err := auth.FromEnvironment()
	require.NoError(t, err)
	runConformance(t, "rediss://"+address, redisauth.Options{Auth: identity})
}

// The suite runs on a local Redis that accepts tokens as passwords.
func TestConformanceRedisWithTokens(t *testing.T) {
	b := newBed(t)
	b.entra.SetLifetime(time.Hour)
	server, err := redis.ParseURL(os.Getenv(variable))
	require.NoError(t, err)
	runConformance(t, "redis://"+server.Addr, redisauth.Options{Credential: b})
}

// runConformance runs the suite over connections with tokens.
func runConformance(t *testing.T, url string, options redisauth.Options) {
	credentials, err := redisauth.New(options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, credentials.Close()) })
	open := func(t testing.TB, o redislease.Options) abstractions.Provider {
		p, err := redislease.Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(func() { p.Close() })
		return p
	}
	account := redislease.Options{URL: url, Credentials: credentials}
	_, err = open(t, account).Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err, "the credentials have a token, and the connections that they keep")
	providertest.Run(t, providertest.Harness{
		New:  func(t testing.TB) abstractions.Provider { return open(t, account) },
		Peer: func(t testing.TB, _ abstractions.Provider) abstractions.Provider { return open(t, account) },
		Unreachable: func(t testing.TB) abstractions.Provider {
			return open(t, redislease.Options{URL: "redis://" + silent(t)})
		},
	})
}

// silent returns the address of a server that accepts connections and never answers.
func silent(t testing.TB) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}
