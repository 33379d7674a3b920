package lockers

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNodes(t *testing.T) {
	nodes, err := nodes("redis://me:p%40w@h1:1,h2:2,[::1]:3/4?mode=redlock")
	require.NoError(t, err)
	require.Len(t, nodes, 3)
	for i, address := range []string{"h1:1", "h2:2", "[::1]:3"} {
		assert.Equal(t, address, nodes[i].Addr)
		assert.Equal(t, "me", nodes[i].Username)
		assert.Equal(t, "p@w", nodes[i].Password)
		assert.Equal(t, 4, nodes[i].DB)
	}
}

func TestNodesOfOne(t *testing.T) {
	for _, url := range []string{"redis://127.0.0.1:6379", "redis://127.0.0.1:6379/0", "redis://127.0.0.1/?mode=redlock"} {
		nodes, err := nodes(url)
		require.NoError(t, err)
		require.Len(t, nodes, 1)
		assert.Equal(t, "127.0.0.1:6379", nodes[0].Addr)
		assert.Empty(t, nodes[0].Password)
	}
}

// TestNodesRefusesWithoutTheSecret: a URL holds a password, which must not
// appear in an error.
func TestNodesRefusesWithoutTheSecret(t *testing.T) {
	for _, url := range []string{"secret", "http://:secret@h:1", "redis://:secret@h:x/0", "redis://:secret@h1:1,h2:y/0", "redis://:secret@h:1/x"} {
		_, err := nodes(url)
		require.Error(t, err, url)
		assert.NotContains(t, err.Error(), "secret")
	}
}

func TestFreeInTakesTheMajority(t *testing.T) {
	servers := openServers(t, server(t, threeServers))
	name := unique()
	for i, ttl := range []time.Duration{10 * time.Second, 30 * time.Second} {
		require.NoError(t, servers[i].Set(t.Context(), name, "x", ttl).Err())
	}
	left, err := servers.FreeIn(t.Context(), name) // 0, 10 s, 30 s
	require.NoError(t, err)
	assert.InDelta(t, 10, left.Seconds(), 9)
	assert.Positive(t, left)
	left, err = servers[2:].FreeIn(t.Context(), name)
	require.NoError(t, err)
	assert.Zero(t, left)
}

// TestSweepDeletesNothingElse: Sweep deletes the keys of a run, and no others.
func TestSweepDeletesNothingElse(t *testing.T) {
	servers := openServers(t, server(t, oneServer))
	mine, other := unique(), unique()
	count := func(pattern string) int {
		keys, err := servers[0].Keys(t.Context(), pattern).Result()
		require.NoError(t, err)
		return len(keys)
	}
	for i := range 3000 {
		require.NoError(t, servers[0].Set(t.Context(), fmt.Sprintf("x:{%s}%d", mine, i), 1, 0).Err())
	}
	require.NoError(t, servers[0].Set(t.Context(), other, 1, 0).Err())
	assert.Equal(t, 3000, count("*"+mine+"*"))
	require.NoError(t, servers.Sweep(t.Context(), mine))
	assert.Zero(t, count("*"+mine+"*"))
	assert.Equal(t, 1, count(other))
}

func TestServersReportTheirUsage(t *testing.T) {
	servers := openServers(t, server(t, threeServers))
	one, err := servers[:1].Memory(t.Context())
	require.NoError(t, err)
	all, err := servers.Memory(t.Context())
	require.NoError(t, err)
	assert.Greater(t, all, 2*one)
	cpu, err := servers.CPU(t.Context())
	require.NoError(t, err)
	assert.Positive(t, cpu)
	version, err := servers.Version(t.Context())
	require.NoError(t, err)
	assert.Regexp(t, `^Redis \d+\.\d+`, version)
	_, err = servers.sum(t.Context(), "cpu", "no_such_field")
	assert.ErrorContains(t, err, "no_such_field")
	assert.Equal(t, "2", infoField("# CPU\r\nused_cpu_sys_children:1\r\nused_cpu_sys:2\r\n", "used_cpu_sys"))
}
