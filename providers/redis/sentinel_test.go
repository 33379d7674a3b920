package redislease

import (
	"strings"
	"testing"
	"time"

	leasing "github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/stretchr/testify/require"
)

// T54: the token rises through a failover, also where the new master has not heard of
// the latest, and the same provider goes on.
func TestTrap_T54_SentinelFailoverKeepsTokensRising(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	p := openTest(t, Options{URL: "redis://" + strings.Join(sentinel.Addrs(), ",") + "?master=" + sentinel.MasterName})
	require.Equal(t, "redis", p.Capabilities().Provider)
	works(t, p)
	first, err := p.Acquire(t.Context(), claimOf("name"))
	require.NoError(t, err)

	old := sentinel.Master()
	old.Kill()
	second := sentinel.WaitForFailover(old)
	// As if the last write had been lost.
	k := p.topology.(*single).naming.keys("name")
	require.NoError(t, second.Client(t).Del(t.Context(), k.lease, k.fence).Err())

	var grant leasing.Grant
	require.Eventually(t, func() bool {
		grant, err = p.Acquire(t.Context(), claimOf("name"))
		return err == nil
	}, time.Minute, 50*time.Millisecond, "%v", err)
	require.Greater(t, grant.Token, first.Token)
	names, _ := listAll(t, p, leasing.ListRequest{Prefix: "name"}, nothing)
	require.Equal(t, []string{"name"}, names)
}

// A master name that the sentinels don't know is an outage, as far as can be known.
func TestSentinelWithoutThatMaster(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	p := openTest(t, Options{URL: "redis://" + strings.Join(sentinel.Addrs(), ",") + "?master=another"})
	_, err := p.Acquire(t.Context(), claimOf("name"))
	require.ErrorIs(t, err, leasing.ErrUnavailable)
}
