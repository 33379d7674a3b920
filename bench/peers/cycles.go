package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

const (
	// namesPerGoroutine is the number of names that a goroutine acquires in turn. A program uses
	// the same names repeatedly, so the servers have seen these names before.
	namesPerGoroutine = 16
	// maxFailures is the number of failures in a row that ends a measurement.
	maxFailures = 100
)

// cycles measures acquiring and releasing names that no other goroutine uses, from several
// goroutines with one client.
func cycles(goroutines int) func(context.Context, *bench) (metrics, error) {
	return func(ctx context.Context, b *bench) (metrics, error) {
		clients, err := b.clients(ctx, goroutines, false)
		if err != nil {
			return nil, err
		}
		var done, failed atomic.Int64
		used, err := b.during(ctx, b.Size.Window, clients, func(running context.Context, client lockers.Locker, who int) error {
			for i, inARow := 0, 0; running.Err() == nil; i++ {
				err := cycle(context.WithoutCancel(running), client, b.name(who, i%namesPerGoroutine))
				switch {
				case err == nil:
					inARow = 0
					b.count(&done)
				case inARow == maxFailures:
					return err
				default:
					inARow++
					b.count(&failed)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		n := float64(done.Load())
		return metrics{
			"rate":      n / used.elapsed.Seconds(),
			"failed":    float64(failed.Load()),
			"commands":  float64(used.commands) / n,
			"allocs":    float64(used.mallocs) / n,
			"clientCPU": float64(used.clientCPU) / float64(time.Microsecond) / n,
			"serverCPU": float64(used.serverCPU) / float64(time.Microsecond) / n,
		}, nil
	}
}

// count adds 1 to n if the measurement is within its window.
func (b *bench) count(n *atomic.Int64) {
	if b.measuring.Load() {
		n.Add(1)
	}
}

// cycle acquires and releases a name.
func cycle(ctx context.Context, client lockers.Locker, name string) error {
	lock, err := client.Try(ctx, name)
	if err != nil {
		return err
	}
	return lock.Release(ctx)
}
