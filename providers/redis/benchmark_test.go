//go:build unix

package redislease

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// BenchmarkProvider measures the provider over a server on this machine, without a manager.
// cpu-µs/op is the time of this process, server-µs/op the server's time.
func BenchmarkProvider(b *testing.B) {
	server := redistest.Start(b, redistest.Options{})
	admin := server.Client(b)
	p := openTest(b, Options{URL: server.URL()})
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour) // like the contexts of a manager
	defer cancel()
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("cycle/callers=%d", callers), func(b *testing.B) {
			require.NoError(b, cycle(ctx, p, "bench/warm")) // connects
			b.ReportAllocs()
			defer measureCPU(b, admin)()
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
				g, err := p.Acquire(ctx, redistest.AcquireRequest(fmt.Sprint("bench/renew/", i), "id", time.Minute))
				if err != nil {
					b.Error(err)
				}
				reqs[i] = abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: g.TTL}
			})
		}
		all.Wait()
		b.ReportAllocs()
		defer measureCPU(b, admin)()
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

// measureCPU reports the processor time used until the returned function is called.
func measureCPU(b *testing.B, admin *redis.Client) func() {
	b.Helper()
	runtime.GC()
	own, server := ownTime(b), serverTime(b, admin)
	b.ResetTimer()
	return func() {
		b.StopTimer()
		b.ReportMetric(float64((ownTime(b)-own).Microseconds())/float64(b.N), "cpu-µs/op")
		b.ReportMetric((serverTime(b, admin)-server)*1e6/float64(b.N), "server-µs/op")
	}
}

func ownTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// serverTime returns the processor time of the server in seconds.
func serverTime(b *testing.B, admin *redis.Client) (sum float64) {
	b.Helper()
	info, err := admin.Info(b.Context(), "cpu").Result()
	require.NoError(b, err)
	for line := range strings.Lines(info) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), ":"); key == "used_cpu_user" || key == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			require.NoError(b, err)
			sum += seconds
		}
	}
	return sum
}
