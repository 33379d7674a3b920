// Package netfault checks leases over a real network that fails (chaos/netfault),
// on each kind of server: it tests the promises from below the client library.
package netfault

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos/netfault"
	"github.com/distributedleasing/leasing/chaos/torture"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// timeout bounds the waits of a test on a slow machine.
	timeout = 20 * time.Second
	// longTTL is a TTL that no test outlives, and that all backends support.
	longTTL = time.Minute
)

func (b *bed) acquire(p leasing.Provider, id string, within time.Duration) (abstractions.Grant, error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), within)
	defer cancel()
	return p.Acquire(ctx, abstractions.AcquireRequest{Name: b.name, ID: id, Owner: "test", TTL: longTTL})
}

// acquireAgain retries an acquire, because the connection on which bytes were lost may be closed
// only during the first attempt.
func (b *bed) acquireAgain(p leasing.Provider, id string) (grant abstractions.Grant, err error) {
	for end := time.Now().Add(timeout); time.Now().Before(end); {
		if grant, err = b.acquire(p, id, time.Until(end)); !errors.Is(err, leasing.ErrUnavailable) {
			break
		}
	}
	return grant, err
}

// definite reports whether an error guarantees that nothing was applied.
func definite(err error) bool {
	return errors.Is(err, leasing.ErrHeld) || errors.Is(err, leasing.ErrThrottled) || errors.Is(err, leasing.ErrReleased)
}

func TestTrap_T13_LostReplyBlocksNotItsOwnRetry(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		client, other, id := b.provider(b.behind), b.provider(b.direct), abstractions.NewID()
		b.warmUp(client)
		b.set(netfault.Conditions{RepliesLost: true})
		_, err := b.acquire(client, id, 300*time.Millisecond)
		require.Error(t, err)
		require.False(t, definite(err), "%v", err)
		record := b.inspect(other)
		if b.oneRequest {
			require.Equal(t, abstractions.FingerprintOf(id), record.Fingerprint, "it was applied")
		}
		b.heal()
		grant, err := b.acquireAgain(client, id)
		require.NoError(t, err)
		if record.Held {
			require.Equal(t, record.Token, grant.Token)
		}
		require.Equal(t, abstractions.FingerprintOf(id), b.inspect(other).Fingerprint)
	})
}

func TestLostRequestIsUnknownAndTriedAgain(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		client, other, id := b.provider(b.behind), b.provider(b.direct), abstractions.NewID()
		b.warmUp(client)
		b.set(netfault.Conditions{RequestsLost: true})
		_, err := b.acquire(client, id, 300*time.Millisecond)
		require.Error(t, err)
		require.False(t, definite(err), "%v", err)
		require.False(t, b.inspect(other).Held)
		b.heal()
		_, err = b.acquireAgain(client, id)
		require.NoError(t, err)
	})
}

func TestEveryFaultEndsACallWithItsContextAndIsOverWhenHealed(t *testing.T) {
	faults := map[string]func(*netfault.Proxy) error{
		"half-open":   func(p *netfault.Proxy) error { p.HalfOpen(); return nil },
		"reset":       func(p *netfault.Proxy) error { p.Reset(); return nil },
		"partitioned": func(p *netfault.Proxy) error { return p.Set(netfault.Conditions{Partitioned: true}) },
		"down":        func(p *netfault.Proxy) error { return p.Set(netfault.Conditions{Down: true}) },
		"slow":        func(p *netfault.Proxy) error { return p.Set(netfault.Conditions{Latency: time.Hour}) },
	}
	onEach(t, func(t *testing.T, b *bed) {
		for fault, begin := range faults {
			client, id := b.provider(b.behind), abstractions.NewID()
			b.name = b.unique + "/" + fault
			b.warmUp(client)
			require.NoError(t, begin(b.proxy))
			began := time.Now()
			_, err := b.acquire(client, id, 300*time.Millisecond)
			require.Less(t, time.Since(began), timeout, fault)
			if err != nil {
				require.False(t, definite(err), "%s: %v", fault, err)
			}
			b.heal()
			require.Eventually(t, func() bool {
				_, err := b.acquire(client, id, time.Second)
				return err == nil
			}, timeout, 10*time.Millisecond, fault)
		}
	})
}

// shortest returns a short TTL that a provider supports.
func shortest(p leasing.Provider) time.Duration {
	return max(1500*time.Millisecond, p.Capabilities().MinTTL)
}

func (b *bed) manager(p leasing.Provider) *leasing.Manager {
	b.t.Helper()
	manager, err := leasing.NewManager(p, leasing.Options{TTL: shortest(p)})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = manager.Close(context.Background()) })
	return manager
}

// The holder is cut off: it loses its lease in time, and another claim gets the name.
func TestPartitionOfTheHolder(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		t.Parallel() // it waits for a TTL
		client := b.provider(b.behind)
		holder, waiter := b.manager(client), b.manager(b.provider(b.direct))
		lease, err := holder.Acquire(t.Context(), b.name)
		require.NoError(t, err)
		b.set(netfault.Conditions{Partitioned: true})
		next, err := waiter.With(leasing.AcquireOptions{WaitLimit: shortest(client) + timeout}).Acquire(t.Context(), b.name)
		require.NoError(t, err)
		require.ErrorIs(t, lease.Err(), leasing.ErrLost, "before anybody else has the name")
		require.Greater(t, next.Token(), lease.Token())
		b.heal()
		require.NoError(t, next.Err())
		require.NoError(t, next.Release(t.Context()))
	})
}

// A waiter notices a release although its push connection has died silently, since it
// polls as well.
func TestWaiterWhoseConnectionIsDead(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		t.Parallel() // it waits for a poll
		holder, waiter := b.manager(b.provider(b.direct)), b.manager(b.provider(b.behind))
		lease, err := holder.Acquire(t.Context(), b.name)
		require.NoError(t, err)
		got := make(chan error, 1)
		asked, ask := context.WithCancel(t.Context())
		go func() {
			ask()
			next, err := waiter.Acquire(t.Context(), b.name)
			if err == nil {
				err = next.Release(t.Context())
			}
			got <- err
		}()
		<-asked.Done()
		require.Eventually(t, func() bool { return b.proxy.Connections() > 0 }, timeout, 10*time.Millisecond)
		b.proxy.HalfOpen()
		require.NoError(t, lease.Release(t.Context()))
		select {
		case err := <-got:
			require.NoError(t, err)
		case <-time.After(3 * timeout):
			require.Fail(t, "it waits still")
		}
	})
}

// A torture run passes with real network faults in place of injected faults.
func TestTorture(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		t.Parallel() // it mostly waits
		report := torture.Test(t, torture.Options{
			Open:    func(ctx context.Context) (leasing.Provider, error) { return b.open(ctx, b.behind, b.unique) },
			Workers: 6, Names: 3, For: 9 * time.Second, Patience: 15 * time.Second,
			Disturb: b.injectFaults,
		})
		require.Positive(t, report.Grants)
	})
}

// injectFaults injects one fault after the other, with a pause after each fault.
func (b *bed) injectFaults(ctx context.Context, report func(torture.Disturbance)) error {
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
			pause(ctx, spell)
			if err := b.proxy.Heal(); err != nil {
				return err
			}
			pause(ctx, spell)
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

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
