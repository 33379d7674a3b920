package redislease

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/fencing/redisfence"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
)

// T54: the token rises through a failover, even if the new master has not received the latest
// token, and the same provider keeps working.
func TestTrap_T54_SentinelFailoverKeepsTokensRising(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	p := openTest(t, Options{URL: "redis://" + strings.Join(sentinel.Addrs(), ",") + "?master=" + sentinel.MasterName})
	require.Equal(t, "redis", p.Capabilities().Provider)
	requireWorking(t, p)
	first, err := p.Acquire(t.Context(), claimOf("name"))
	require.NoError(t, err)

	old := sentinel.Master()
	old.Kill()
	second := sentinel.WaitForFailover(old)
	// Delete the record, as if the failover had lost the last write.
	k := keysOf("name")
	require.NoError(t, second.Client(t).Del(t.Context(), k.Name).Err())

	var grant abstractions.Grant
	require.Eventually(t, func() bool {
		grant, err = p.Acquire(t.Context(), claimOf("name"))
		return err == nil
	}, time.Minute, 50*time.Millisecond, "%v", err)
	require.Greater(t, grant.Token, first.Token)
	names, _ := listAll(t, p, abstractions.ListRequest{Prefix: "name"}, noOp)
	require.Equal(t, []string{"name"}, names)
}

// newResource starts a server with a resource that leases protect, and returns the resource's write
// function.
func newResource(t testing.TB) (write func(token int64) error) {
	client := redistest.Start(t, redistest.Options{}).Client(t)
	fence, err := redisfence.New(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		return redis.NewScript(script).Run(ctx, client, keys, args...).Result()
	}, redisfence.Options{})
	require.NoError(t, err)
	key, err := redisfence.Key("resource")
	require.NoError(t, err)
	return func(token int64) error {
		return fence.Set(t.Context(), key, token, "resource", fmt.Sprint(token), time.Hour)
	}
}

// Three managers contend while the master dies and is replaced. A fourth claim, which held the name
// before them, is paused. All contenders are served. Each write has a higher token than the resource
// has seen, or the resource refuses the write: a failover may lose a lease that its holder still
// trusts. The resource refuses the paused holder.
func TestTrap_T54_SentinelFailoverUnderContention(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	open := func() *Provider {
		return openTest(t, Options{URL: "redis://" + strings.Join(sentinel.Addrs(), ",") + "?master=" + sentinel.MasterName})
	}
	write := newResource(t)
	req := claimOf("name")
	req.TTL = 2 * time.Second
	paused, err := open().Acquire(t.Context(), req)
	require.NoError(t, err)
	require.NoError(t, write(paused.Token))

	c := &contention{t: t, write: write, last: paused.Token}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for i := range c.served {
		m := managerOf(t, open(), leasing.Options{TTL: 2 * time.Second})
		all.Go(func() { c.contend(ctx, m, i) })
	}
	old := sentinel.Master()
	old.Kill()
	sentinel.WaitForFailover(old)
	c.waitUntilServed("after a failover")
	require.ErrorIs(t, write(paused.Token), abstractions.ErrStale)
	sentinel.Failover()
	c.waitUntilServed("after another")
	require.ErrorIs(t, write(paused.Token), abstractions.ErrStale)
	cancel()
	all.Wait()
	t.Logf("%d writes, %d refused", c.written, c.refused)
}

// contention is a set of managers that acquire, write, and release.
type contention struct {
	t     *testing.T
	write func(token int64) error

	mu               sync.Mutex
	last             int64 // latest token that was admitted
	served           [3]atomic.Int64
	written, refused int
}

func (c *contention) contend(ctx context.Context, m *leasing.Manager, i int) {
	for ctx.Err() == nil {
		lease, err := m.Acquire(ctx, "name")
		if err != nil {
			continue
		}
		c.recordWrite(lease.Token())
		c.served[i].Add(1)
		_ = lease.Release(ctx) // a failover may be under way
	}
}

// recordWrite checks that the resource admits rising tokens and no others.
func (c *contention) recordWrite(token int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.write(token)
	if err != nil {
		assert.ErrorIs(c.t, err, abstractions.ErrStale)
		assert.Less(c.t, token, c.last)
		c.refused++
		return
	}
	assert.Greater(c.t, token, c.last, "of another claim")
	c.last = token
	c.written++
}

// waitUntilServed waits until each manager was served twice more: the second of these requests was sent after
// waitUntilServed was called.
func (c *contention) waitUntilServed(when string) {
	c.t.Helper()
	var before [len(c.served)]int64
	for i := range before {
		before[i] = c.served[i].Load()
	}
	require.Eventually(c.t, func() bool {
		for i := range before {
			if c.served[i].Load() < before[i]+2 {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond, when)
}

// A master name that the sentinels don't know is reported like an outage.
func TestSentinelWithoutThatMaster(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	p := openTest(t, Options{URL: "redis://" + strings.Join(sentinel.Addrs(), ",") + "?master=another"})
	_, err := p.Acquire(t.Context(), claimOf("name"))
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
}

// T144: go-redis dereferences nil for a client of sentinels with credentials, at each connection.
func TestTrap_T144_CredentialsAndSentinels(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	at := "redis://" + strings.Join(sentinel.Addrs(), ",") + "?master=" + sentinel.MasterName
	requireWorking(t, openTest(t, Options{URL: at, Credentials: signIn{password: "of a user without a password"}}))
	p := openTest(t, Options{URL: at, Credentials: signIn{err: abstractions.ErrDenied}})
	_, err := p.Acquire(t.Context(), claimOf("name"))
	require.ErrorIs(t, err, abstractions.ErrDenied)
	require.ErrorContains(t, err, "credentials: ")
}
