package fencing_test

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing/redisfence"
)

// On a Cluster, even of one node, Redis refuses a script whose keys are in
// different slots. So Redis itself checks that fence and key are in one slot.
func TestRedisFenceKeyIsInTheSlotOfItsKey(t *testing.T) {
	client := startRedisCluster(t)
	require.Error(t, client.Eval(t.Context(), "return 1", []string{"a", "b"}).Err(), "it does refuse")
	checked, err := redisfence.New(runScript(client), redisfence.Options{})
	require.NoError(t, err)
	for _, key := range []string{"report", "{user7}:in", "in:{user7}", "a{b", "{{a}}", "{a}{b}", "fence:{a}:x", "ä b"} {
		fence, err := redisfence.Key(key)
		require.NoError(t, err)
		require.NoError(t, checked.Set(t.Context(), fence, 34, key, "text", 0), key)
		require.ErrorIs(t, checked.Set(t.Context(), fence, 33, key, "late", 0), leasing.ErrStale)
	}
}

// startRedisCluster starts a cluster of one node in a folder of its own.
func startRedisCluster(t *testing.T) *redis.Client {
	t.Helper()
	ports := freePorts(t, 2)
	ctx, cancel := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, "redis-server", "--bind", "127.0.0.1", "--port", ports[0],
		"--cluster-enabled", "yes", "--cluster-port", ports[1], "--save", "", "--dir", t.TempDir())
	var output strings.Builder
	server.Stdout = &output
	require.NoError(t, server.Start())
	client := redis.NewClient(&redis.Options{Addr: net.JoinHostPort("127.0.0.1", ports[0]), ContextTimeoutEnabled: true})
	t.Cleanup(func() {
		require.NoError(t, client.Close())
		cancel()
		_ = server.Wait() // killed
		if t.Failed() {
			t.Log(output.String())
		}
	})
	require.Eventually(t, func() bool { return client.Ping(ctx).Err() == nil }, timeout, 5*time.Millisecond)
	require.NoError(t, client.ClusterAddSlotsRange(ctx, 0, 16383).Err())
	require.Eventually(t, func() bool {
		info, err := client.ClusterInfo(ctx).Result()
		return err == nil && strings.Contains(info, "cluster_state:ok")
	}, timeout, 5*time.Millisecond)
	return client
}

func freePorts(t *testing.T, count int) []string {
	t.Helper()
	ports := make([]string, count)
	for i := range ports {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		_, ports[i], err = net.SplitHostPort(listener.Addr().String())
		require.NoError(t, err)
	}
	return ports
}
