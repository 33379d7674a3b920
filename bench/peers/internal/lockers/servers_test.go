package lockers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNodes(t *testing.T) {
	nodes, err := Nodes("redis://me:p%40w@h1:1,h2:2,[::1]:3/4?mode=redlock&max_retries=7")
	require.NoError(t, err)
	require.Len(t, nodes, 3)
	for i, address := range []string{"h1:1", "h2:2", "[::1]:3"} {
		assert.Equal(t, address, nodes[i].Addr)
		assert.Equal(t, "me", nodes[i].Username)
		assert.Equal(t, "p@w", nodes[i].Password)
		assert.Equal(t, 4, nodes[i].DB)
		assert.Equal(t, 7, nodes[i].MaxRetries)
	}
}

func TestNodesOfOne(t *testing.T) {
	for _, url := range []string{"redis://127.0.0.1:6379", "redis://127.0.0.1:6379/0", "redis://127.0.0.1/?mode=redlock"} {
		nodes, err := Nodes(url)
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
		_, err := Nodes(url)
		require.Error(t, err, url)
		assert.NotContains(t, err.Error(), "secret")
	}
}

func TestFreeInTakesTheMajority(t *testing.T) {
	clients := admin(t, Peer{Servers: 3})
	name := unique()
	for i, ttl := range []time.Duration{10 * time.Second, 30 * time.Second} {
		require.NoError(t, clients[i].Set(t.Context(), name, "x", ttl).Err())
	}
	left, err := freeIn(t.Context(), clients, []string{name}, 2) // 0, 10 s, 30 s
	require.NoError(t, err)
	assert.InDelta(t, 10, left.Seconds(), 9)
	assert.Positive(t, left)
	left, err = freeIn(t.Context(), clients[:1], []string{name, name + "x", name + "y"}, 1)
	require.NoError(t, err)
	assert.Zero(t, left)
}
