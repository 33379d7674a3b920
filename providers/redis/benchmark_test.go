package redislease

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/stretchr/testify/require"
)

// BenchmarkProvider is what the provider costs over a server on this machine, without a manager.
// cpu-µs/op is this process': the server has its own.
func BenchmarkProvider(b *testing.B) {
	p := openTest(b, Options{URL: redistest.Start(b, redistest.Options{}).URL()})
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour) // as a manager's
	defer cancel()
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("cycle/callers=%d", callers), func(b *testing.B) {
			require.NoError(b, cycle(ctx, p, "bench/warm")) // connects
			b.ReportAllocs()
			defer measureCPU(b)()
			var left atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			for n := range callers {
				name := fmt.Sprint("bench/", n)
				all.Go(func() {
					for left.Add(-1) >= 0 {
						if err := cycle(ctx, p, name); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
	b.Run("renew=10000", func(b *testing.B) {
		reqs := make([]abstractions.RenewRequest, 10_000)
		var all sync.WaitGroup
		for i := range reqs {
			all.Go(func() {
				g, err := p.Acquire(ctx, wish(fmt.Sprint("bench/renew/", i), "id", time.Minute))
				if err != nil {
					b.Error(err)
				}
				reqs[i] = abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: g.TTL}
			})
		}
		all.Wait()
		b.ReportAllocs()
		defer measureCPU(b)()
		for b.Loop() {
			results, err := p.RenewBatch(ctx, reqs)
			require.NoError(b, err)
			for i := range results {
				require.NoError(b, results[i].Err)
			}
		}
	})
}

func cycle(ctx context.Context, p *Provider, name string) error {
	id := abstractions.NewID()
	if _, err := p.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: id, Owner: "me", TTL: time.Minute}); err != nil {
		return err
	}
	return p.Release(ctx, abstractions.ReleaseRequest{Name: name, ID: id})
}

// measureCPU reports the processor time of this process until the function it returns is called.
func measureCPU(b *testing.B) func() {
	b.Helper()
	runtime.GC()
	began := processorTime(b)
	b.ResetTimer()
	return func() {
		b.StopTimer()
		b.ReportMetric(float64((processorTime(b)-began).Microseconds())/float64(b.N), "cpu-µs/op")
	}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
