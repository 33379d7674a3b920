package redislease

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// These tests run the whole suite while a minority of the servers is down, hangs or has
// lost its data. The queue of waiters is on the first server, so most tests harm that
// server. `make torture` runs all of these suites. `make test-all` runs only the first,
// and T44 on one server, since each of the others may take minutes.

func TestConformanceRedlock3Dead(t *testing.T) {
	servertest.Long(t)
	conformDespite(t, 3, false, func(servers []*redistest.Server) (well []*redistest.Server) {
		servers[0].Kill()
		return servers[1:]
	})
}

func TestConformanceRedlock3Frozen(t *testing.T) {
	skipUnlessSlow(t)
	conformDespite(t, 3, true, func(servers []*redistest.Server) (well []*redistest.Server) {
		servers[0].Pause()
		return servers[1:]
	})
}

func TestConformanceRedlock3Paused(t *testing.T) {
	skipUnlessSlow(t)
	conformDespite(t, 3, true, func(servers []*redistest.Server) (well []*redistest.Server) {
		admin := servers[0].Client(t)
		require.NoError(t, admin.Do(t.Context(), "CLIENT", "PAUSE", "600000", "ALL").Err())
		return servers[1:]
	})
}

// A server that was restarted without its data casts no vote for as long as the
// suite runs, so its records don't count.
func TestConformanceRedlock3Emptied(t *testing.T) {
	servertest.Long(t)
	conformQuarantined(t, (*redistest.Server).RestartEmpty)
}

// A server that was restarted from an old snapshot casts no vote for as long as the suite
// runs.
func TestConformanceRedlock3Restored(t *testing.T) {
	servertest.Long(t)
	conformQuarantined(t, func(s *redistest.Server) {
		require.NoError(t, s.Client(t).Save(t.Context()).Err())
		s.Kill()
		s.Restart()
	})
}

func conformQuarantined(t *testing.T, restart func(*redistest.Server)) {
	skipUnlessSlow(t)
	conformDespite(t, 3, false, func(servers []*redistest.Server) (well []*redistest.Server) {
		restart(servers[0])
		emptied := servers[0].Client(t)
		t.Cleanup(func() {
			keys, err := emptied.Keys(context.Background(), "*").Result()
			require.NoError(t, err)
			require.NotEmpty(t, keys)
			for _, key := range keys {
				require.False(t, strings.HasSuffix(key, "}") && redistest.ReadStored(t, emptied, key).Held(), key)
			}
		})
		return servers
	})
}

func TestConformanceRedlock5DeadAndFrozen(t *testing.T) {
	skipUnlessSlow(t)
	conformDespite(t, 5, true, func(servers []*redistest.Server) (well []*redistest.Server) {
		servers[0].Kill()
		servers[2].Pause()
		return append(slices.Clone(servers[3:]), servers[1])
	})
}

// T44: the suite passes while servers repeatedly forget their scripts, since the provider
// resends scripts.
func TestTrap_T44_ConformanceScriptFlush(t *testing.T) {
	t.Run("one server", func(t *testing.T) {
		server := redistest.Start(t, redistest.Options{Password: "secret"})
		keepFlushingScripts(t, server)
		providertest.Run(t, harness(server.URL(), server.Client(t), silent(t)))
	})
	t.Run("Redlock", func(t *testing.T) {
		skipUnlessSlow(t)
		conformDespite(t, 3, false, func(servers []*redistest.Server) (well []*redistest.Server) {
			keepFlushingScripts(t, servers...)
			return servers
		})
	})
}

// keepFlushingScripts makes servers forget their scripts repeatedly, until the test ends.
func keepFlushingScripts(t *testing.T, servers ...*redistest.Server) {
	admins := make([]*redis.Client, len(servers))
	for i, server := range servers {
		admins[i] = server.Client(t)
	}
	repeatUntilEnd(t, func(ctx context.Context) {
		for _, admin := range admins {
			_ = admin.ScriptFlush(ctx).Err() // the flush fails when the test ends
		}
	})
}

// repeatUntilEnd calls a function repeatedly until the test ends.
func repeatUntilEnd(t *testing.T, do func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			do(ctx)
			select {
			case <-time.After(rand.N(100 * time.Millisecond)):
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// skipUnlessSlow leaves a suite to `make torture`.
func skipUnlessSlow(t *testing.T) {
	if os.Getenv("LEASING_TEST_SLOW") == "" {
		t.Skip("takes up to three minutes; with LEASING_TEST_SLOW=1 it runs")
	}
}

// conformDespite runs the suite on n servers after spoil has harmed some and returned the
// others. Forget and Ahead of the harness act on the unharmed servers. Each of the suite's
// clients has to detect frozen servers, so timeouts are short if servers are frozen.
func conformDespite(t *testing.T, n int, frozen bool, spoil func(servers []*redistest.Server) (well []*redistest.Server)) {
	servers := redistest.StartMany(t, n, redistest.Options{Password: "secret"})
	bootstrap(t, servers)
	well := spoil(servers)
	limits := "&max_ttl=10m" // the quarantine of an emptied server, which must outlast the suite
	if frozen {
		limits += "&node_timeout=600ms&dial_timeout=2s&read_timeout=2s"
		t.Cleanup(func() { <-time.After(2 * time.Second) }) // go-redis may dial until then, in a goroutine that can't be stopped
	} else {
		limits += "&node_timeout=1s"
	}
	h := harness(redlockURL(servers)+limits, nil, redlockOf(silent(t), silent(t), silent(t)))
	h.Forget, h.Ahead, h.Remove = forgetNames(well), raiseTokens(well), nil // a renewal would restore the lease on the servers
	if len(well) == n {
		// The last server keeps the lease, and so does the first server unless it is in quarantine.
		h.Lose = func(t testing.TB, _ abstractions.Provider, name string) {
			require.NoError(t, servers[1].Client(t).Del(t.Context(), keysOf(name).Name).Err())
		}
	}
	h.TTL = 2 * time.Second // no other server can replace the vote of a slow server
	providertest.Run(t, h)
}

// raiseTokens raises a name's token by an hour on the servers: see raiseToken.
func raiseTokens(servers []*redistest.Server) func(t testing.TB, _ abstractions.Provider, name string) {
	return func(t testing.TB, _ abstractions.Provider, name string) {
		for _, server := range servers {
			raiseToken(t, server.Client(t), keysOf(name).Name)
		}
	}
}

// forgetNames deletes the servers' records of a name once its token is in the past. If the
// token is ahead of a server's clock, the server keeps the record for longer by the
// difference.
func forgetNames(servers []*redistest.Server) func(t testing.TB, _ abstractions.Provider, name string) {
	return func(t testing.TB, _ abstractions.Provider, name string) {
		key := keysOf(name).Name
		for _, server := range servers {
			<-time.After(time.Until(time.UnixMicro(redistest.ReadStored(t, server.Client(t), key).Token)))
		}
		for _, server := range servers {
			require.NoError(t, server.Client(t).Del(t.Context(), key).Err())
		}
	}
}
