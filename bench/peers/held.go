package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
	"github.com/distributedleasing/leasing/bench/peers/internal/usage"
)

// held measures what it costs to keep many leases.
func held(ctx context.Context, s *site) (metrics, error) {
	client, err := s.open(ctx, &s.counter)
	if err != nil {
		return nil, err
	}
	if err := cycle(ctx, client, s.name("warm")); err != nil { // opens connections, loads scripts
		return nil, err
	}
	heap := usage.Heap()
	resident, hasResident := usage.RSS()
	locks, err := s.keepMany(ctx, client)
	if err != nil {
		return nil, err
	}
	count := float64(len(locks))
	m := metrics{"heap": float64(usage.Heap()-heap) / count}
	used, err := s.over(ctx, func() error { return pause(ctx, s.Variant.For) })
	if err != nil {
		return nil, err
	}
	for key, value := range used.perMinute() {
		m[key] = value
	}
	m["goroutines"] = float64(runtime.NumGoroutine())
	if now, ok := usage.RSS(); ok && hasResident {
		m["rss"] = float64(now-resident) / count
	}
	lost, err := releaseAll(ctx, locks)
	m["lost"] = float64(lost)
	return m, err
}

// keepMany takes the leases evenly over 0.6 of the TTL, or as fast as it can if
// that is too fast, so that their renewals are as even.
func (s *site) keepMany(ctx context.Context, client lockers.Locker) ([]lockers.Lock, error) {
	locks := make([]lockers.Lock, s.Variant.Count)
	start, spread := time.Now(), 6*s.Variant.TTL/10
	err := everywhere(len(locks), func(i int) error {
		due := start.Add(spread * time.Duration(i) / time.Duration(len(locks)))
		if err := pause(ctx, time.Until(due)); err != nil {
			return err
		}
		lock, err := tryAgain(ctx, client, s.name(i))
		if err != nil {
			return fmt.Errorf("lease %d: %w", i, err)
		}
		lock.Keep()
		locks[i] = lock
		return nil
	})
	return locks, err
}

// tryAgain lets a passing failure pass: rueidislock gives a server 20 ms to
// answer, which a busy machine does not always.
func tryAgain(ctx context.Context, client lockers.Locker, name string) (lock lockers.Lock, err error) {
	for range 20 {
		if lock, err = client.Try(ctx, name); err == nil {
			return lock, nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return nil, err
}

// releaseAll returns how many leases were lost, by what their library knows or
// finds at the release.
func releaseAll(ctx context.Context, locks []lockers.Lock) (int64, error) {
	var lost atomic.Int64
	err := everywhere(len(locks), func(i int) error {
		kept := locks[i].Kept()
		if err := locks[i].Release(ctx); !kept || err != nil {
			lost.Add(1)
		}
		return ctx.Err()
	})
	return lost.Load(), err
}

// everywhere does something for each of n, from 64 goroutines. It returns one of
// their errors.
func everywhere(n int, do func(i int) error) error {
	var next atomic.Int64
	var all sync.WaitGroup
	failures := make([]error, 64)
	for w := range failures {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && failures[w] == nil; i = next.Add(1) - 1 {
				failures[w] = do(int(i))
			}
		})
	}
	all.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}
