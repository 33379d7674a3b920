package redislease

import (
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestConformanceRedlock3(t *testing.T) { conformRedlock(t, 3) }

func TestConformanceRedlock5(t *testing.T) {
	servertest.Long(t)
	conformRedlock(t, 5)
}

func conformRedlock(t *testing.T, n int) {
	servers := redistest.StartMany(t, n, redistest.Options{Password: "secret"})
	bootstrap(t, servers)
	h := harness(redlockURL(servers)+"&node_timeout=1s", nil, redlockOf(silent(t), silent(t), silent(t)))
	h.Forget, h.Ahead, h.Remove = forgetNames(servers), raiseTokens(servers), nil // a renewal would restore the lease on the servers
	h.TTL = 2 * time.Second                                                       // a server has half of the TTL to answer, which a busy machine may need
	providertest.Run(t, h)
}

// redlockOf joins the URLs of several servers.
func redlockOf(urls ...string) string {
	for i := 1; i < len(urls); i++ {
		urls[i] = urls[i][strings.LastIndexAny(urls[i], "@/")+1:]
	}
	return strings.Join(urls, ",") + "?mode=redlock"
}

func redlockURL(servers []*redistest.Server) string {
	urls := make([]string, len(servers))
	for i, server := range servers {
		urls[i] = strings.TrimSuffix(server.URL(), "/0")
	}
	return redlockOf(urls...)
}

// bootstrap lets new servers vote.
func bootstrap(t testing.TB, servers []*redistest.Server) {
	t.Helper()
	p, err := OpenURL(t.Context(), redlockURL(servers))
	require.NoError(t, err)
	require.NoError(t, p.Bootstrap(t.Context()))
	require.NoError(t, p.Close())
}
