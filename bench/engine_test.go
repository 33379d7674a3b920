package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// BenchmarkRenew is one renewal that an application asks for.
func BenchmarkRenew(b *testing.B) {
	for label, meter := range meters() {
		b.Run(label, func(b *testing.B) {
			m := manager(b, memlease.New(memlease.Options{}), leasing.Options{MeterProvider: meter})
			l, err := m.TryAcquire(b.Context(), "bench/renew/1", nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Renew(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			_ = l.Release(context.Background())
		})
	}
}

// BenchmarkRenewals is the engine's renewal of 10,000 leases, in batches: the
// time is that of one round, from when the first is due.
func BenchmarkRenewals(b *testing.B) {
	const leases = 10_000
	const cadence = 200 * time.Millisecond
	m := manager(b, memlease.New(memlease.Options{}), leasing.Options{MeterProvider: meters()["metrics=on"], TTL: time.Minute, RenewCadence: cadence})
	held := make([]leasing.Lease, leases)
	for i := range held {
		l, err := m.TryAcquire(b.Context(), fmt.Sprintf("bench/renewals/%d", i), nil)
		if err != nil {
			b.Fatal(err)
		}
		held[i] = l
	}
	renewals := func() (n int) {
		for _, l := range held {
			n += l.Renewals()
		}
		return n
	}
	time.Sleep(cadence)
	before, cpu := renewals(), cpuTime()
	for range b.N {
		time.Sleep(cadence)
	}
	b.ReportMetric(float64(cpuTime()-cpu)/float64(renewals()-before), "cpu-ns/renewal")
	for _, l := range held {
		_ = l.Release(context.Background())
	}
}

// BenchmarkHandoff is a name that goes from one goroutine of a manager to the next.
func BenchmarkHandoff(b *testing.B) {
	m := manager(b, memlease.New(memlease.Options{}), leasing.Options{MeterProvider: meters()["metrics=on"]})
	b.ReportAllocs()
	var all sync.WaitGroup
	work := make(chan struct{})
	for range 8 {
		all.Go(func() {
			for range work {
				l, err := m.Acquire(context.Background(), "bench/handoff/1", nil)
				if err != nil {
					b.Error(err)
					return
				}
				_ = l.Release(context.Background())
			}
		})
	}
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	all.Wait()
}
