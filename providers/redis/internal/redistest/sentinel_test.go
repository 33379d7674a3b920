package redistest

import (
	"testing"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestReplicaBecomesMaster(t *testing.T) {
	t.Parallel()
	c := StartSentinel(t)
	require.Len(t, c.Addrs(), 3)
	for _, s := range c.Sentinels {
		require.NoError(t, c.seesAll(t.Context(), s))
	}
	client := c.Client(t)
	require.True(t, client.(*redis.Client).Options().ContextTimeoutEnabled)
	set(t, client, "key", "value")
	first := c.Master()
	require.Same(t, c.Servers[0], first)
	acknowledged, err := first.admin.Wait(t.Context(), 2, servertest.Timeout).Result()
	require.NoError(t, err)
	require.EqualValues(t, 2, acknowledged)

	first.Kill()
	second := c.WaitForFailover(first)
	require.NotSame(t, first, second)
	require.Equal(t, "value", get(t, c.Client(t), "key"))

	third := c.Failover()
	require.NotSame(t, second, third)
	set(t, c.Client(t), "key", "new")
	require.Equal(t, "new", get(t, third.Client(t), "key"))
}

// It takes a majority of the sentinels, and no more, to name the master.
func TestMajorityNamesTheMaster(t *testing.T) {
	t.Parallel()
	c := StartSentinel(t)
	c.Sentinels[0].Kill()
	require.Same(t, c.Servers[0], c.Master())
	c.Sentinels[1].Kill()
	_, err := c.agreedMaster(t.Context())
	require.Error(t, err)
	c.Sentinels[0].Restart()
	c.Sentinels[1].Restart()
	c.Ready()
}

func TestCheckHealthyFindsDoubts(t *testing.T) {
	fine := map[string]string{"flags": "slave", "master-link-status": "ok"}
	require.NoError(t, checkHealthy([]map[string]string{fine, fine}, 2, "slave"))
	for _, doubt := range []map[string]string{
		{"flags": "slave,s_down", "master-link-status": "ok"},
		{"flags": "slave,disconnected", "master-link-status": "ok"},
		{"flags": "slave", "master-link-status": "err"},
	} {
		require.Error(t, checkHealthy([]map[string]string{fine, doubt}, 2, "slave"))
	}
	require.Error(t, checkHealthy([]map[string]string{fine}, 2, "slave"), "one is missing")
}
