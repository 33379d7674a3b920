package main

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/bench/internal/meter"
	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

// held measures the cost of keeping many leases.
func held(ctx context.Context, b *bench) (metrics, error) {
	client, err := b.open(ctx, &b.counter)
	if err != nil {
		return nil, err
	}
	if err := cycle(ctx, client, b.name("first")); err != nil { // opens connections, loads scripts
		return nil, err
	}
	heapBefore, rssBefore := meter.Heap(), rss()
	memoryBefore, err := b.store.Memory(ctx)
	if err != nil {
		return nil, err
	}
	locks, err := b.keepMany(ctx, client)
	if err != nil {
		return nil, err
	}
	m := metrics{"heap": (meter.Heap() - heapBefore) / float64(len(locks))}
	used, err := b.over(ctx, func() error { return pause(ctx, b.Size.HeldWindow) })
	if err != nil {
		return nil, err
	}
	maps.Copy(m, used.perMinute())
	memory, err := b.store.Memory(ctx)
	if err != nil {
		return nil, err
	}
	m["goroutines"] = float64(runtime.NumGoroutine())
	m["rss"] = (rss() - rssBefore) / 1e6
	m["memory"] = (memory - memoryBefore) / 1e6
	m["lost"], err = releaseAll(ctx, locks)
	return m, err
}

// keepMany acquires the leases evenly over lockers.RenewAt of the TTL, or as fast as possible if
// that rate is too high. Their renewals are then spread just as evenly.
func (b *bench) keepMany(ctx context.Context, client lockers.Locker) ([]lockers.Lock, error) {
	locks := make([]lockers.Lock, b.Size.Leases)
	start, spread := time.Now(), time.Duration(lockers.RenewAt*float64(b.ttl))
	err := meter.ForEach(len(locks), func(i int) error {
		due := start.Add(spread * time.Duration(i) / time.Duration(len(locks)))
		if err := pause(ctx, time.Until(due)); err != nil {
			return err
		}
		lock, err := b.acquireOne(ctx, client, i)
		if err != nil {
			return fmt.Errorf("lease %d: %w", i, err)
		}
		lock.Keep()
		locks[i] = lock
		return nil
	})
	return locks, err
}

// acquireOne tries another name after a failure: rueidislock gives a server 20 ms to
// answer, which is too short on a busy machine, and after a failure the name may be taken.
func (b *bench) acquireOne(ctx context.Context, client lockers.Locker, i int) (lock lockers.Lock, err error) {
	for attempt := range 20 {
		if lock, err = client.Try(ctx, b.name(i, attempt)); err == nil {
			return lock, nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return nil, err
}

// releaseAll releases the leases and returns how many were lost, as far as their library knows or
// notices at the release.
func releaseAll(ctx context.Context, locks []lockers.Lock) (float64, error) {
	var lost atomic.Int64
	err := meter.ForEach(len(locks), func(i int) error {
		kept := locks[i].Kept()
		if err := locks[i].Release(ctx); !kept || err != nil {
			lost.Add(1)
		}
		return ctx.Err()
	})
	return float64(lost.Load()), err
}
