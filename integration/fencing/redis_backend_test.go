package fencing_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/fencing/redisfence"
)

// redisBackend is a Redis server, with a Fence that uses one client.
type redisBackend struct {
	*redisfence.Fence
	client *redis.Client
	tag    string // the prefix of all the test's keys: "{fencing:...}"
}

// key returns a key with the test's prefix. All these keys are in one slot.
func (b redisBackend) key(name string) string { return b.tag + ":" + name }

// fenceWith returns a Fence with other options.
func (b redisBackend) fenceWith(t *testing.T, options redisfence.Options) *redisfence.Fence {
	t.Helper()
	checked, err := redisfence.New(runScript(b.client), options)
	require.NoError(t, err)
	return checked
}

func (b redisBackend) get(t *testing.T, name string) string {
	t.Helper()
	value, err := b.client.Get(t.Context(), b.key(name)).Result()
	require.NoError(t, err)
	return value
}

// runScript is the adapter in the documentation of redisfence.Eval.
func runScript(client redis.Scripter) redisfence.Eval {
	return func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		return redis.NewScript(script).Run(ctx, client, keys, args...).Result()
	}
}

// evalScript is the adapter that sends the whole script each time.
func evalScript(client redis.Scripter) redisfence.Eval {
	return func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		return client.Eval(ctx, script, keys, args...).Result()
	}
}

// onRedis runs a test with each adapter and each version of the protocol.
func onRedis(t *testing.T, test func(t *testing.T, b redisBackend)) {
	adapters := map[string]func(redis.Scripter) redisfence.Eval{"script": runScript, "eval": evalScript}
	for name, adapter := range adapters {
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s/resp%d", name, protocol), func(t *testing.T) {
				test(t, openRedis(t, adapter, protocol))
			})
		}
	}
}

func openRedis(t *testing.T, adapter func(redis.Scripter) redisfence.Eval, protocol int) redisBackend {
	t.Helper()
	raw := servertest.Require(t, "LEASING_TEST_REDIS")
	options, err := redis.ParseURL(raw)
	require.NoError(t, err)
	options.ContextTimeoutEnabled = true
	options.Protocol = protocol
	client := redis.NewClient(options)
	checked, err := redisfence.New(adapter(client), redisfence.Options{})
	require.NoError(t, err)
	b := redisBackend{Fence: checked, client: client, tag: fmt.Sprintf("{fencing:%s:%d}", t.Name(), os.Getpid())}
	t.Cleanup(func() { b.clean(t) })
	return b
}

// clean removes the test's keys and closes the client.
func (b redisBackend) clean(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	keys := b.client.Scan(ctx, 0, b.tag+":*", 1000).Iterator()
	for keys.Next(ctx) {
		require.NoError(t, b.client.Del(ctx, keys.Val()).Err())
	}
	require.NoError(t, keys.Err())
	require.NoError(t, b.client.Close())
}
