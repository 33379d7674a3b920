package redislease

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestConformanceRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Password: "secret"})
	providertest.Run(t, harness(server.URL(), server.Client(t), silent(t)))
}

func TestConformanceCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	h := harness(clusterURL(cluster), cluster.Client(t), silent(t)+"?mode=cluster")
	h.KnowsTheGone = false // each member knows only its own subscribers
	providertest.Run(t, h)
}

// harness opens providers by URL; admin deletes names without the providers' knowledge.
func harness(url string, admin redis.UniversalClient, unreachable string) providertest.Harness {
	open := func(t testing.TB, url string) abstractions.Provider {
		p, err := OpenURL(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(func() { p.Close() })
		return p
	}
	remove := func(t testing.TB, _ abstractions.Provider, name string) {
		require.NoError(t, admin.Del(t.Context(), keysOf(name).Name).Err())
	}
	return providertest.Harness{
		New:    func(t testing.TB) abstractions.Provider { return open(t, url) },
		Peer:   func(t testing.TB, _ abstractions.Provider) abstractions.Provider { return open(t, url) },
		Forget: remove,
		Remove: remove,
		Ahead: func(t testing.TB, _ abstractions.Provider, name string) {
			raiseToken(t, admin, keysOf(name).Name)
		},
		KnowsTheGone: true,
		Unreachable:  func(t testing.TB) abstractions.Provider { return open(t, unreachable) },
	}
}

// raiseToken raises the token of a free name by an hour. The token's offset is fixed: see prelude.lua.
func raiseToken(t testing.TB, admin redis.UniversalClient, key string) {
	const from, to = 17, 32
	text, err := admin.GetRange(t.Context(), key, from, to).Result()
	require.NoError(t, err)
	if text == "" { // one of several servers, whose vote was not needed
		return
	}
	token, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	require.NoError(t, admin.SetRange(t.Context(), key, from, fmt.Sprintf("%016d", token+time.Hour.Microseconds())).Err())
}

// silent returns the URL of a server that accepts connections and never answers.
func silent(t testing.TB) string {
	return "redis://" + faulttest.Silent(t)
}
