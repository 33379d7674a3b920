package etcdlease

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest"
)

// ends measures how long after its TTL each of many leases is free, which nobody renews
// after their first renewal.
func ends(t *testing.T, holder, waiter *Provider, leases int, ttl time.Duration) (after []time.Duration) {
	prefix, lock := "expiry/"+abstractions.NewID(), sync.Mutex{}
	var all sync.WaitGroup
	for i := range leases {
		all.Go(func() {
			<-time.After(time.Duration(i) * time.Second / time.Duration(leases)) // all parts of etcd's half second
			req := wish(fmt.Sprint(prefix, i), abstractions.NewID(), ttl)
			g, err := holder.Acquire(t.Context(), req)
			for errors.Is(err, abstractions.ErrUnavailable) { // for want of a leader
				g, err = holder.Acquire(t.Context(), req)
			}
			sent := time.Now()
			if err == nil {
				_, err = holder.Renew(t.Context(), renewal(g))
			}
			again := func() bool {
				return errors.Is(err, abstractions.ErrHeld) || errors.Is(err, abstractions.ErrUnavailable)
			}
			for req.ID = abstractions.NewID(); err == nil || again(); <-time.After(50 * time.Millisecond) {
				if _, err = waiter.Acquire(t.Context(), req); err == nil {
					lock.Lock()
					defer lock.Unlock()
					after = append(after, time.Since(sent)-ttl)
					return
				}
			}
			t.Error(err)
		})
	}
	all.Wait()
	require.Len(t, after, leases)
	slices.Sort(after)
	t.Logf("%d leases of %v were free %v to %v after their TTL, median %v", leases, ttl, after[0], after[leases-1], after[leases/2])
	return after
}

const slack = 10 * time.Second // of a busy machine

// A lease whose holder died is free no earlier than its TTL after its last renewal was
// sent, and no later than Capabilities.Lateness says.
func TestLeasesEndNeitherEarlyNorLate(t *testing.T) {
	t.Parallel()
	o := Options{URL: named(t), Prefix: "expiry"}
	waiter := open(t, o)
	after := ends(t, open(t, o), waiter, 256, 3*time.Second)
	require.GreaterOrEqual(t, after[0], time.Duration(0))
	require.LessOrEqual(t, after[len(after)-1], waiter.Capabilities().Lateness.Fixed+slack)
}

// A new leader gives leases their whole TTL anew: late, and never early.
func TestLeasesEndLateAfterAChangeOfLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	p := c.open()
	moved := make(chan struct{})
	const ttl = 5 * time.Second
	go func() {
		defer close(moved)
		<-time.After(ttl * 6 / 10)
		c.move()
	}()
	after := ends(t, p, p, 200, ttl)
	<-moved
	require.GreaterOrEqual(t, after[0], time.Duration(0))
	require.LessOrEqual(t, after[len(after)-1], ttl+p.Capabilities().Lateness.Fixed+slack)
}

// A holder whose member is killed or stopped, or loses its office, knows of the loss before
// another has the name.
func TestLossIsToldBeforeTheNameIsFree(t *testing.T) {
	for name, harm := range map[string]func(c *cluster){
		"killed": func(c *cluster) { c.members[0].Kill() },
		"paused": func(c *cluster) { require.NoError(c.t, c.members[0].Pause()) },
		"paused, and the leader moves": func(c *cluster) {
			require.NoError(c.t, c.members[0].Pause())
			if c.leader() != 0 {
				c.move()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3)
			providertest.LossIsTold(t, c.open(0), c.open(1, 2), 3*time.Second, func() { harm(c) })
		})
	}
}
