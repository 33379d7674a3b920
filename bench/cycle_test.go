package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/distributedleasing/leasing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// meters are the telemetry settings to compare: the API's no-op, and the SDK with a reader that is
// not read during the benchmark.
func meters() map[string]metric.MeterProvider {
	return map[string]metric.MeterProvider{
		"metrics=off": metricnoop.NewMeterProvider(),
		"metrics=on":  sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
	}
}

func manager(b *testing.B, provider leasing.Provider, options leasing.Options) *leasing.Manager {
	b.Helper()
	m, err := leasing.NewManager(provider, options)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return m
}

// BenchmarkCycle measures one acquire and release of a free name over the memory
// provider: the cost of the core.
func BenchmarkCycle(b *testing.B) {
	for label, meter := range meters() {
		names := make([]string, 1024)
		for i := range names {
			names[i] = fmt.Sprintf("bench/cycle/%d", i)
		}
		b.Run(label+"/serial", func(b *testing.B) {
			m := manager(b, memlease.New(memlease.Options{}), leasing.Options{MeterProvider: meter})
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				cycle(b, m, names[i%len(names)])
				i++
			}
		})
		b.Run(label+"/parallel", func(b *testing.B) {
			m := manager(b, memlease.New(memlease.Options{}), leasing.Options{MeterProvider: meter})
			b.ReportAllocs()
			var next atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				name := fmt.Sprintf("bench/parallel/%d", next.Add(1))
				for pb.Next() {
					cycle(b, m, name)
				}
			})
		})
	}
}

func cycle(b *testing.B, m *leasing.Manager, name string) {
	ctx := context.Background()
	l, err := m.TryAcquire(ctx, name)
	if err == nil {
		err = l.Release(ctx)
	}
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkRenew measures one call of Lease.Renew.
func BenchmarkRenew(b *testing.B) {
	for label, meter := range meters() {
		b.Run(label, func(b *testing.B) {
			m := manager(b, memlease.New(memlease.Options{}), leasing.Options{MeterProvider: meter})
			l, err := m.TryAcquire(b.Context(), "bench/renew/1")
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

// BenchmarkHandoff measures the hand-off of a name from one goroutine of a manager
// to the next.
func BenchmarkHandoff(b *testing.B) {
	m := manager(b, memlease.New(memlease.Options{}), leasing.Options{MeterProvider: meters()["metrics=on"]})
	b.ReportAllocs()
	var all sync.WaitGroup
	work := make(chan struct{})
	for range 8 {
		all.Go(func() {
			for range work {
				l, err := m.Acquire(context.Background(), "bench/handoff/1")
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
