package kubernetes_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// BenchmarkCycle acquires and releases a free name.
func BenchmarkCycle(b *testing.B) {
	url, config := serverConfig(b)
	b.Run("client-go", func(b *testing.B) {
		name := "cycle-" + abstractions.NewID()
		for b.Loop() {
			candidate(b, config, name, "a", true, func(context.Context) {})(b.Context())
		}
	})
	b.Run("leasing", func(b *testing.B) {
		m, err := leasing.NewManager(open(b, url), leasing.Options{TTL: ttl})
		require.NoError(b, err)
		name := "cycle-" + abstractions.NewID()
		for b.Loop() {
			lease, err := m.TryAcquire(b.Context(), name)
			require.NoError(b, err)
			require.NoError(b, lease.Release(b.Context()))
		}
		require.NoError(b, m.Close(b.Context()))
	})
}

// BenchmarkHandOver releases a name for which another process waits, with default settings:
// client-go polls every 2 s.
func BenchmarkHandOver(b *testing.B) {
	url, config := serverConfig(b)
	b.Run("client-go", func(b *testing.B) {
		name := "over-" + abstractions.NewID()
		retryPeriod, renewDeadline = 2*time.Second, 4*time.Second
		defer func() { retryPeriod, renewDeadline = 500*time.Millisecond, 3*time.Second }()
		handOver(b, func() func(lead func(stop <-chan struct{})) {
			return func(lead func(stop <-chan struct{})) {
				candidate(b, config, name, abstractions.NewID(), true, func(ctx context.Context) { lead(ctx.Done()) })(b.Context())
			}
		})
	})
	b.Run("leasing", func(b *testing.B) {
		name := "over-" + abstractions.NewID()
		handOver(b, func() func(lead func(stop <-chan struct{})) {
			m, err := leasing.NewManager(open(b, url), leasing.Options{TTL: ttl})
			require.NoError(b, err)
			return func(lead func(stop <-chan struct{})) {
				require.NoError(b, m.Do(b.Context(), name, func(ctx context.Context, _ *leasing.Lease) error { lead(ctx.Done()); return nil }))
				require.NoError(b, m.Close(context.WithoutCancel(b.Context())))
			}
		})
	})
}

// handOver lets each candidate lead until the next candidate has waited for a moment.
func handOver(b *testing.B, candidate func() func(lead func(stop <-chan struct{}))) {
	type leader struct {
		begun chan time.Time
		end   chan struct{}
	}
	var all sync.WaitGroup
	start := func() leader {
		l := leader{make(chan time.Time, 1), make(chan struct{})}
		run := candidate()
		all.Go(func() {
			run(func(stop <-chan struct{}) {
				l.begun <- time.Now()
				select {
				case <-l.end:
				case <-stop:
				}
			})
		})
		return l
	}
	now := start()
	<-now.begun
	var took time.Duration
	n := 0
	for b.Loop() {
		next := start()
		<-time.After(2500 * time.Millisecond)
		left := time.Now()
		close(now.end)
		took += (<-next.begun).Sub(left)
		now = next
		n++
	}
	close(now.end)
	all.Wait()
	b.ReportMetric(float64(took.Milliseconds())/float64(n), "ms/handover")
}
