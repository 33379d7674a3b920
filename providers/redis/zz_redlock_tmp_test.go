package redislease

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	leasing "github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/stretchr/testify/require"
)

func BenchmarkTmpRedlockCycle(b *testing.B) {
	servers := redistest.StartMany(b, 3, redistest.Options{})
	bootstrapped(b, servers)
	p, err := OpenURL(b.Context(), redlockURL(servers))
	require.NoError(b, err)
	defer p.Close()
	ctx := context.Background()
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for _, s := range servers { s.Client(b).ConfigResetStat(ctx) }
			b.ReportAllocs()
			var next atomic.Int64
			var wg sync.WaitGroup
			for g := range n {
				wg.Go(func() {
					for {
						i := int(next.Add(1))
						if i > b.N { return }
						name := fmt.Sprintf("bench/%d-%d", g, i%1000)
						id := leasing.NewID()
						grant, err := p.Acquire(ctx, leasing.AcquireRequest{Name: name, ID: id, Owner: "me", TTL: 30 * time.Second})
						if err != nil { b.Error(err); continue }
						if err := p.Release(ctx, leasing.ReleaseRequest{Name: name, ID: id, State: grant.State}); err != nil { b.Error(err) }
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
			for _, s := range servers {
				text := s.Client(b).Info(ctx, "commandstats").Val()
				for _, line := range strings.Split(text, "\r\n") {
					if strings.HasPrefix(line, "cmdstat_evalsha") || strings.HasPrefix(line, "cmdstat_eval:") { b.Log(b.N, line) }
				}
			}
		})
	}
}

func BenchmarkTmpRedlockFight(b *testing.B) {
	servers := redistest.StartMany(b, 3, redistest.Options{})
	bootstrapped(b, servers)
	ctx := context.Background()
	for _, separate := range []bool{false, true} {
		b.Run(fmt.Sprint("separate=", separate), func(b *testing.B) {
			var ms []leasing.Manager
			for i := range 64 {
				if i == 0 || separate {
					p, err := OpenURL(ctx, redlockURL(servers))
					require.NoError(b, err)
					m, err := leasing.NewManager(p, leasing.Options{})
					require.NoError(b, err)
					b.Cleanup(func() { m.Close(ctx); p.Close() })
					ms = append(ms, m)
				} else {
					ms = append(ms, ms[0])
				}
			}
			b.ResetTimer()
			counts := make([]int, 64)
			stop := time.Now().Add(5 * time.Second)
			var wg sync.WaitGroup
			for _, s := range servers { s.Client(b).ConfigResetStat(ctx) }
			for g := range 64 {
				wg.Go(func() {
					for time.Now().Before(stop) {
						l, err := ms[g].Acquire(ctx, "fight/one", leasing.AcquireOptions{})
						if err != nil { b.Error(err); return }
						time.Sleep(time.Millisecond)
						counts[g]++
						if err := l.Release(ctx); err != nil { b.Error(err) }
					}
				})
			}
			start := time.Now()
			wg.Wait()
			total := 0
			var sq float64
			for _, c := range counts { total += c; sq += float64(c * c) }
			b.ReportMetric(float64(total)/time.Since(start).Seconds(), "handoffs/s")
			b.ReportMetric(float64(total*total)/(64*sq), "jain")
			for _, s := range servers {
				text := s.Client(b).Info(ctx, "commandstats").Val()
				for _, line := range strings.Split(text, "\r\n") {
					if strings.HasPrefix(line, "cmdstat_evalsha") { b.Log(total, line) }
				}
			}
		})
	}
}
