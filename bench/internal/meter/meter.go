// Package meter has the measuring functions of the benchmarks and of command peers.
package meter

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// CPU returns the user and system time of all threads of this process.
func CPU() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Heap returns the bytes of live objects and of goroutines' stacks. It collects garbage twice, to
// free the objects that finalizers have kept alive.
func Heap() float64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc + stats.StackInuse)
}

// ForEach calls do(0) to do(n-1) from 64 goroutines, and returns the first error.
func ForEach(n int, do func(i int) error) error {
	var next atomic.Int64
	var all errgroup.Group
	for range 64 {
		all.Go(func() error {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := do(int(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}
