package lockers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/bench/peers/internal/wire"
)

// timeout bounds operations that take almost no time on an idle machine.
const timeout = 20 * time.Second

func open(t *testing.T, p Peer, config Config) Locker {
	if config.URL == "" {
		config.URL = server(t, oneServer)
	}
	l, err := p.Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l
}

// try repeats an attempt that has timed out on a busy machine: some libraries wait only a
// few milliseconds for a server.
func try(ctx context.Context, l Locker, name string) (Lock, error) {
	for began := time.Now(); ; {
		lock, err := l.Try(ctx, name)
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || time.Since(began) > timeout {
			return lock, err
		}
	}
}

func openServers(t *testing.T, url string) Servers {
	servers, err := clients(url, nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, servers.Close()) })
	return servers
}

// eachPeer runs a test for all peers at the same time, and for Redlock peers also on three
// servers. The test opens its clients on url.
func eachPeer(t *testing.T, test func(t *testing.T, p Peer, url string)) {
	for _, p := range All {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			test(t, p, server(t, oneServer))
		})
		if p.Redlock {
			t.Run(p.Name+"-redlock", func(t *testing.T) {
				t.Parallel()
				test(t, p, server(t, threeServers))
			})
		}
	}
}

// eachLibrary is eachPeer without the in-memory lock.
func eachLibrary(t *testing.T, test func(t *testing.T, p Peer, url string)) {
	eachPeer(t, func(t *testing.T, p Peer, url string) {
		if !p.Local {
			test(t, p, url)
		}
	})
}

func TestAdaptersExcludeRedis(t *testing.T) {
	eachPeer(t, func(t *testing.T, p Peer, url string) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		var counter wire.Counter
		first := open(t, p, Config{URL: url, TTL: 30 * time.Second, Counter: &counter})
		second := first // an in-memory lock is one object, shared by all clients
		if !p.Local {
			second = open(t, p, Config{URL: url, TTL: 30 * time.Second})
		}
		name := unique()
		for range 3 {
			lock, err := try(ctx, first, name)
			require.NoError(t, err)
			for _, l := range []Locker{first, second} {
				_, err = try(ctx, l, name)
				require.ErrorIs(t, err, ErrTaken)
			}
			assert.True(t, lock.Kept())
			other, err := try(ctx, second, name+"/other")
			require.NoError(t, err)
			require.NoError(t, other.Release(ctx))
			require.NoError(t, lock.Release(ctx))
		}
		lock, err := try(ctx, second, name)
		require.NoError(t, err)
		require.NoError(t, lock.Release(ctx))
		assert.Equal(t, !p.Local, counter.Commands() >= 6, "%d commands were counted", counter.Commands())
	})
}

func TestAdaptersWaitRedis(t *testing.T) {
	eachPeer(t, func(t *testing.T, p Peer, url string) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		l := open(t, p, Config{URL: url, TTL: 30 * time.Second})
		name := unique()
		const rounds, fighters = 4, 4
		inside, total := 0, 0 // guarded by the lock under test, as -race checks
		var all sync.WaitGroup
		for range fighters {
			all.Go(func() {
				for range rounds {
					lock, err := acquire(ctx, l, name)
					if !assert.NoError(t, err) {
						return
					}
					inside++
					assert.Equal(t, 1, inside)
					total++
					inside--
					assert.NoError(t, lock.Release(ctx))
				}
			})
		}
		all.Wait()
		assert.Equal(t, rounds*fighters, total)
	})
}

// acquire repeats its request at intervals. rueidislock gives up and undoes an attempt
// that takes longer than 20 ms, as happens on a busy machine. With NOLOOP rueidislock is
// not notified of its own changes, so it may wait forever for a free name.
func acquire(ctx context.Context, l Locker, name string) (Lock, error) {
	for {
		attempt, cancel := context.WithTimeout(ctx, timeout/10)
		lock, err := l.Acquire(attempt, name)
		if err == nil {
			context.AfterFunc(ctx, cancel) // the lock may end with its context
			return lock, nil
		}
		cancel()
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return nil, err
		}
	}
}

func TestAdaptersStopWaitingRedis(t *testing.T) {
	eachLibrary(t, func(t *testing.T, p Peer, url string) {
		l := open(t, p, Config{URL: url, TTL: 30 * time.Second})
		name := unique()
		lock, err := try(t.Context(), l, name)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err = l.Acquire(ctx, name)
		require.Error(t, err)
		assert.NotErrorIs(t, err, ErrTaken)
		require.NoError(t, lock.Release(t.Context()))
	})
}

// TestAdaptersKeepRedis: a lock that is kept outlives its TTL.
func TestAdaptersKeepRedis(t *testing.T) {
	const ttl = 2 * time.Second
	eachLibrary(t, func(t *testing.T, p Peer, url string) {
		name := unique()
		lock, err := try(t.Context(), open(t, p, Config{URL: url, TTL: ttl}), name)
		require.NoError(t, err)
		lock.Keep()
		<-time.After(ttl + ttl/2)
		_, err = try(t.Context(), open(t, p, Config{URL: url, TTL: ttl}), name)
		assert.ErrorIs(t, err, ErrTaken)
		assert.True(t, lock.Kept())
		require.NoError(t, lock.Release(t.Context()))
	})
}

// TestAdaptersNoticeLossRedis checks that the adapters report a lost lock: the comparison
// relies on these reports. A Redlock may acquire its lock again on servers that have
// forgotten it, so here another client takes the name.
func TestAdaptersNoticeLossRedis(t *testing.T) {
	const ttl = 3 * time.Second
	eachLibrary(t, func(t *testing.T, p Peer, url string) {
		l := open(t, p, Config{URL: url, TTL: ttl})
		name := unique()
		lock, err := try(t.Context(), l, name)
		require.NoError(t, err)
		lock.Keep()
		servers, others := openServers(t, url), open(t, p, Config{URL: url, TTL: 30 * time.Second})
		var thief Lock
		require.Eventually(t, func() bool {
			for _, client := range servers {
				forget(t, client, name)
			}
			thief, err = try(t.Context(), others, name)
			return err == nil
		}, timeout, time.Millisecond, "a renewal may come in between")
		assert.Eventually(t, func() bool { return !lock.Kept() }, timeout, 20*time.Millisecond)
		assert.Error(t, lock.Release(t.Context()))
		require.NoError(t, thief.Release(t.Context()))
	})
}

// forget deletes the keys that a library has stored for a name.
func forget(t *testing.T, client *redis.Client, name string) {
	keys, err := client.Keys(t.Context(), "*"+name+"*").Result()
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	require.NoError(t, client.Del(t.Context(), keys...).Err())
}

func TestFreeInIsTheServersRedis(t *testing.T) {
	const ttl = 30 * time.Second
	eachLibrary(t, func(t *testing.T, p Peer, url string) {
		l := open(t, p, Config{URL: url, TTL: ttl})
		name := unique()
		left, err := l.(Expiring).FreeIn(t.Context(), name)
		require.NoError(t, err)
		assert.Zero(t, left)
		lock, err := try(t.Context(), l, name)
		require.NoError(t, err)
		left, err = l.(Expiring).FreeIn(t.Context(), name)
		require.NoError(t, err)
		assert.LessOrEqual(t, left, ttl)
		assert.Greater(t, left, ttl-timeout)
		require.NoError(t, lock.Release(t.Context()))
	})
}
