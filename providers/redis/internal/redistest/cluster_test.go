package redistest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/stretchr/testify/require"
)

func TestEverySlotIsServed(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 3)
	client := c.Client(t)
	require.Len(t, c.Addrs(), 3)
	require.True(t, client.Options().ContextTimeoutEnabled)

	next := 0
	for i, s := range c.Servers {
		from, to := slotRange(i, len(c.Servers))
		require.Equal(t, next, from, "no gap and no overlap")
		next = to + 1
		for _, node := range c.Servers {
			require.Contains(t, node.admin.ClusterNodes(t.Context()).Val(), fmt.Sprintf("%s@%d", s.Addr(), s.bus))
			require.Equal(t, s.Addr(), masterOf(t, node, int64(from)))
			require.Equal(t, s.Addr(), masterOf(t, node, int64(to)))
		}
	}
	require.Equal(t, slots, next)

	const keys = 300
	for i := range keys {
		key := fmt.Sprintf("key-%d", i)
		set(t, client, key, key)
		require.Equal(t, key, get(t, client, key))
	}
	var held int64
	for _, s := range c.Servers {
		n := s.Client(t).DBSize(t.Context()).Val()
		require.Positive(t, n)
		held += n
	}
	require.EqualValues(t, keys, held)
}

// masterOf returns the address that a node reports for a slot.
func masterOf(t *testing.T, node *Server, slot int64) string {
	t.Helper()
	shards, err := node.admin.ClusterShards(t.Context()).Result()
	require.NoError(t, err)
	for _, shard := range shards {
		for _, r := range shard.Slots {
			if r.Start <= slot && slot <= r.End {
				return fmt.Sprintf("127.0.0.1:%d", shard.Nodes[0].Port)
			}
		}
	}
	return "nobody"
}

func TestNodesGoOnWithoutOne(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 3)
	first := keyIn(t, c, 0)
	last := keyIn(t, c, 2)
	c.Servers[2].Kill()
	require.Eventually(t, func() bool {
		text := c.Servers[0].admin.ClusterInfo(t.Context()).Val()
		return text != "" && !strings.Contains(text, "cluster_slots_fail:0\r")
	}, servertest.Timeout, 10*time.Millisecond)
	client := c.Client(t)
	set(t, client, first, "value")
	require.Error(t, client.Set(t.Context(), last, "value", 0).Err())

	c.Servers[2].RestartEmpty()
	c.Ready()
	again := c.Client(t)
	require.Equal(t, "value", get(t, again, first))
	absent(t, again, last)
	set(t, again, last, "value")
}

// keyIn returns a key in the slots of node i.
func keyIn(t *testing.T, c *Cluster, i int) string {
	t.Helper()
	from, to := slotRange(i, len(c.Servers))
	for n := 0; ; n++ {
		key := fmt.Sprintf("key-%d", n)
		slot, err := c.Servers[i].admin.ClusterKeySlot(t.Context(), key).Result()
		require.NoError(t, err)
		if int64(from) <= slot && slot <= int64(to) {
			return key
		}
	}
}

func TestOneNodeHasAllSlots(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 1)
	set(t, c.Client(t), "key", "value")
}
