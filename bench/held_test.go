package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
)

const (
	heldLeases = 100_000
	heldFor    = time.Minute
	heldTTL    = 30 * time.Second
)

// BenchmarkHeld holds 100,000 leases of 30 s for a minute with metrics on and
// reports what that costs: memory per lease (beyond the backend's records where
// those are in another process), goroutines, CPU seconds, and leases lost.
func BenchmarkHeld(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		for b.Loop() {
			hold(b, memlease.New(memlease.Options{}))
		}
	})
	b.Run("sqlite", func(b *testing.B) {
		for b.Loop() {
			p, err := sqllease.Open(b.Context(), sqllease.Options{
				URL: "sqlite://" + filepath.Join(b.TempDir(), "leases.db"), Synchronous: "normal", Create: true,
			})
			if err != nil {
				b.Fatal(err)
			}
			hold(b, p)
			if err := p.Close(); err != nil {
				b.Error(err)
			}
		}
	})
}

func hold(b *testing.B, provider leasing.Provider) {
	meter := meters()["metrics=on"]
	memory := heap()
	m, err := leasing.NewManager(provider, leasing.Options{MeterProvider: meter, TTL: heldTTL})
	if err != nil {
		b.Fatal(err)
	}
	var renewed atomic.Int64
	leases := acquireAll(b, m)
	b.ReportMetric(float64(heap()-memory)/heldLeases, "B/lease")

	cpu := cpuTime()
	time.Sleep(heldFor)
	b.ReportMetric((cpuTime() - cpu).Seconds(), "cpu-s/min")
	b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
	for _, l := range leases {
		renewed.Add(int64(l.Renewals()))
	}
	b.ReportMetric(float64(renewed.Load())/heldLeases, "renewals/lease")
	b.ReportMetric(float64(m.Health(b.Context()).Lost), "lost")
	releaseAll(leases)
	if err := m.Close(b.Context()); err != nil {
		b.Error(err)
	}
}

// acquireAll takes the leases from 64 goroutines.
func acquireAll(b *testing.B, m leasing.Manager) []leasing.Lease {
	leases := make([]leasing.Lease, heldLeases)
	everywhere(func(i int) {
		l, err := m.TryAcquire(context.Background(), fmt.Sprintf("bench/held/%d", i), nil)
		if err != nil {
			b.Error(err)
			return
		}
		leases[i] = l
	})
	if b.Failed() {
		b.FailNow()
	}
	return leases
}

func releaseAll(leases []leasing.Lease) {
	everywhere(func(i int) { _ = leases[i].Release(context.Background()) })
}

func everywhere(do func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for i := next.Add(1) - 1; i < heldLeases; i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	all.Wait()
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc + stats.StackInuse
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
