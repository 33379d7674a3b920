package redlock

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/stretchr/testify/require"
)

// When a release returns, no server that answers keeps the lease: the process may exit at once.
func TestTrap_T80_RedlockReleaseReachesTheServersThatLag(t *testing.T) {
	t.Parallel()
	r := newRing(t, 5, Options{})
	p := r.process()
	g := r.take(p, "a", "x", time.Minute)
	for _, w := range p.wires[3:] {
		w.on(script.Release, func(send func() error) error {
			<-time.After(20 * time.Millisecond)
			return send()
		})
	}
	require.NoError(t, p.ReleaseGrant(g))
	require.Zero(t, r.holders("a", "x"))
}

// Only the first release waits for a hung server, and only briefly.
func TestTrap_T80_RedlockReleaseIsDoneWithoutAServerThatHangs(t *testing.T) {
	r, p := newRingOfThree(t)
	gate, open := newGate(t)
	p.wires[2].on(script.Release, delayed(gate))
	var sent time.Time
	for _, name := range []string{"a", "b"} {
		g := p.Take(name, "x", time.Minute)
		r.eventually(func() bool { return r.holders(name, "x") == 3 }) // all have answered
		sent = time.Now()
		require.NoError(t, p.ReleaseGrant(g))
		require.True(t, p.redlock.peers[2].silent.Load(), "it is not waited for again")
		require.Equal(t, []string{"", ""}, []string{r.holder(0, name), r.holder(1, name)})
	}
	open()
	p.settle()
	if took := time.Since(sent); took < maxNodeTimeout { // the release is not sent after this time
		require.Zero(t, r.holders("b", "x"), "after %v", took)
	}
}
