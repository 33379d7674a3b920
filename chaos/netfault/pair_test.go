package netfault

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Close waits until all connections have ended.
func TestCloseWaitsForConnections(t *testing.T) {
	p, err := Start("127.0.0.1:1")
	require.NoError(t, err)
	over, closed := make(chan struct{}), make(chan error, 1)
	p.links.Go(func() { <-over })
	go func() { closed <- p.Close() }()
	select {
	case <-closed:
		require.Fail(t, "it has not waited")
	case <-time.After(50 * time.Millisecond):
	}
	close(over)
	require.NoError(t, <-closed)
}

// Latency delays only replies, and a random part of Jitter is added.
func TestDelayOfEachDirection(t *testing.T) {
	c, seen := Conditions{Latency: 10, Jitter: 1000}, map[time.Duration]bool{}
	for range 100 {
		require.Zero(t, c.delay(request))
		d := c.delay(reply)
		require.True(t, d >= 10 && d < 1010, "%d", d)
		seen[d] = true
	}
	require.Greater(t, len(seen), 10)
	require.EqualValues(t, 10, Conditions{Latency: 10}.delay(reply))
}
