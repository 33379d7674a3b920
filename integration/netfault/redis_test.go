package netfault

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	leasing "github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos/netfault"
	"github.com/distributedleasing/leasing/chaos/torture"
	redislease "github.com/distributedleasing/leasing/providers/redis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what should happen soon on a slow machine.
const patience = 20 * time.Second

// bed is a proxy before the Redis server, and one's own prefix behind it.
type bed struct {
	t      *testing.T
	proxy  *netfault.Proxy
	direct string // URLs
	behind string
	prefix string
}

func newBed(t *testing.T) *bed {
	t.Helper()
	raw := os.Getenv("LEASING_TEST_REDIS")
	require.NotEmpty(t, raw, "run make test, or set LEASING_TEST_REDIS to the URL of a server")
	u, err := url.Parse(raw)
	require.NoError(t, err)
	proxy, err := netfault.Start(u.Host)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	u.Host = proxy.Addr()
	return &bed{t: t, proxy: proxy, direct: raw, behind: u.String(), prefix: "netfault_" + rand.Text()[:8]}
}

func (b *bed) open(ctx context.Context, url string) (leasing.Provider, error) {
	return redislease.Open(ctx, redislease.Options{URL: url, Prefix: b.prefix})
}

// provider is a client, behind the proxy or not.
func (b *bed) provider(url string) leasing.Provider {
	b.t.Helper()
	p, err := b.open(b.t.Context(), url)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, p.Close()) })
	return p
}

func (b *bed) set(c netfault.Conditions) {
	b.t.Helper()
	require.NoError(b.t, b.proxy.Set(c))
}

func acquire(ctx context.Context, p leasing.Provider, id string, within time.Duration) (leasing.Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return p.Acquire(ctx, leasing.AcquireRequest{Name: "n", ID: id, Owner: "test", TTL: time.Minute})
}

// definite says whether an error promises that nothing was applied.
func definite(err error) bool {
	return errors.Is(err, leasing.ErrHeld) || errors.Is(err, leasing.ErrThrottled) || errors.Is(err, leasing.ErrReleased)
}

func TestTrap_T13_LostReplyBlocksNotItsOwnRetry_redis(t *testing.T) {
	b := newBed(t)
	client, other, id := b.provider(b.behind), b.provider(b.direct), leasing.NewID()
	// The connection is open and the server knows the script, or what is lost would
	// be the answer to something before.
	_, err := client.Acquire(t.Context(), leasing.AcquireRequest{Name: "warm", ID: leasing.NewID(), Owner: "test", TTL: time.Second})
	require.NoError(t, err)
	b.set(netfault.Conditions{RepliesLost: true})
	_, err = acquire(t.Context(), client, id, 300*time.Millisecond)
	require.Error(t, err)
	require.False(t, definite(err), "%v", err)
	record, err := other.Inspect(t.Context(), leasing.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.Equal(t, id, record.ID, "it was applied")
	require.NoError(t, b.proxy.Heal())
	grant, err := acquire(t.Context(), client, id, patience)
	require.NoError(t, err)
	require.Equal(t, record.Token, grant.Token)
}

func ping(t *testing.T, p leasing.Provider) error {
	t.Helper()
	pinger, ok := leasing.As[leasing.Pinger](p)
	require.True(t, ok)
	return pinger.Ping(t.Context())
}

func TestLostRequestIsUnknownAndTriedAgain_redis(t *testing.T) {
	b := newBed(t)
	client, other, id := b.provider(b.behind), b.provider(b.direct), leasing.NewID()
	require.NoError(t, ping(t, client))
	b.set(netfault.Conditions{RequestsLost: true})
	_, err := acquire(t.Context(), client, id, 300*time.Millisecond)
	require.Error(t, err)
	require.False(t, definite(err), "%v", err)
	record, err := other.Inspect(t.Context(), leasing.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.False(t, record.Held)
	require.NoError(t, b.proxy.Heal())
	_, err = acquire(t.Context(), client, id, patience)
	require.NoError(t, err)
}

func TestEveryFaultEndsACallWithItsContextAndIsOverWhenHealed_redis(t *testing.T) {
	for name, fault := range map[string]func(*netfault.Proxy) error{
		"half-open":   func(p *netfault.Proxy) error { p.HalfOpen(); return nil },
		"reset":       func(p *netfault.Proxy) error { p.Reset(); return nil },
		"partitioned": func(p *netfault.Proxy) error { return p.Set(netfault.Conditions{Partitioned: true}) },
		"down":        func(p *netfault.Proxy) error { return p.Set(netfault.Conditions{Down: true}) },
		"slow":        func(p *netfault.Proxy) error { return p.Set(netfault.Conditions{Latency: time.Hour}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			client, id := b.provider(b.behind), leasing.NewID()
			require.NoError(t, ping(t, client))
			require.NoError(t, fault(b.proxy))
			began := time.Now()
			_, err := acquire(t.Context(), client, id, 300*time.Millisecond)
			require.Less(t, time.Since(began), patience)
			if err != nil {
				require.False(t, definite(err), "%v", err)
			}
			require.NoError(t, b.proxy.Heal())
			require.Eventually(t, func() bool {
				_, err := acquire(t.Context(), client, id, time.Second)
				return err == nil
			}, patience, 10*time.Millisecond)
		})
	}
}

// The holder is cut off: it loses its lease in time, and somebody else gets it.
func TestPartitionOfTheHolder_redis(t *testing.T) {
	b := newBed(t)
	holder, err := leasing.NewManager(b.provider(b.behind), leasing.Options{TTL: 1500 * time.Millisecond})
	require.NoError(t, err)
	defer holder.Close(t.Context())
	waiter, err := leasing.NewManager(b.provider(b.direct), leasing.Options{TTL: 1500 * time.Millisecond})
	require.NoError(t, err)
	defer waiter.Close(t.Context())
	lease, err := holder.Acquire(t.Context(), "n", leasing.AcquireOptions{})
	require.NoError(t, err)
	b.set(netfault.Conditions{Partitioned: true})
	next, err := waiter.Acquire(t.Context(), "n", leasing.AcquireOptions{WaitLimit: patience})
	require.NoError(t, err)
	require.ErrorIs(t, lease.Err(), leasing.ErrLost, "before anybody else has the name")
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, b.proxy.Heal())
	require.NoError(t, next.Err())
	require.NoError(t, next.Release(t.Context()))
}

// The torture run with real network faults in place of injected ones.
func TestTorture_redis(t *testing.T) {
	b := newBed(t)
	report, err := torture.Run(t.Context(), torture.Options{
		Open:    func(ctx context.Context) (leasing.Provider, error) { return b.open(ctx, b.behind) },
		Workers: 6, Names: 3, For: 9 * time.Second, Patience: 15 * time.Second,
		Disturb: b.weather,
		Command: "go test ./integration/netfault -run " + t.Name(),
	})
	require.NoError(t, err)
	t.Logf("\n%s", report)
	require.Empty(t, report.Violations, "%s", report)
	require.Positive(t, report.Grants)
}

// weather is one fault after the other, with some sun between them.
func (b *bed) weather(ctx context.Context, report func(torture.Disturbance)) error {
	defer func() { _ = b.proxy.Heal() }()
	for {
		for _, c := range []struct {
			kind string
			netfault.Conditions
		}{
			{"slow", netfault.Conditions{Latency: 100 * time.Millisecond, Jitter: 100 * time.Millisecond}},
			{"replies lost", netfault.Conditions{RepliesLost: true}},
			{"requests lost", netfault.Conditions{RequestsLost: true}},
			{"partitioned", netfault.Conditions{Partitioned: true}},
			{"down", netfault.Conditions{Down: true}},
		} {
			const spell = 500 * time.Millisecond
			report(torture.Disturbance{Kind: c.kind, For: spell})
			if err := b.proxy.Set(c.Conditions); err != nil {
				return err
			}
			lasting(ctx, spell)
			if err := b.proxy.Heal(); err != nil {
				return err
			}
			lasting(ctx, spell)
		}
		report(torture.Disturbance{Kind: "reset"})
		b.proxy.Reset()
		report(torture.Disturbance{Kind: "half-open"})
		b.proxy.HalfOpen()
		if ctx.Err() != nil {
			return nil
		}
	}
}

func lasting(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
