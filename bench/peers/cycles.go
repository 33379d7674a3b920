package main

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

// namesEach is how many names a goroutine takes turns with: a program's names
// come again, so the servers know them.
const namesEach = 16

// cycles measures acquire and release of names that nobody else wants.
func cycles(ctx context.Context, s *site) (metrics, error) {
	clients, err := s.openFor(ctx, s.Variant.Count)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancelCause(ctx)
	var sum tally
	var all sync.WaitGroup
	for i, client := range clients {
		all.Go(func() {
			if err := cycleOn(running, client, s.names(i), &sum); err != nil {
				stop(err)
			}
		})
	}
	var n, failed int64
	used, err := s.measured(running, func() error {
		n, failed = sum.done.Load(), sum.failed.Load()
		err := pause(running, s.Variant.For)
		n, failed = sum.done.Load()-n, sum.failed.Load()-failed
		return err
	})
	failure := context.Cause(running)
	stop(nil)
	all.Wait()
	if err = cmp.Or(failure, err); err != nil {
		return nil, err
	}
	m := used.per(n)
	m["rate"] = float64(n) / used.elapsed.Seconds()
	m["failed"] = float64(failed)
	return m, nil
}

// tally counts cycles.
type tally struct{ done, failed atomic.Int64 }

// measured bills something after the settling time.
func (s *site) measured(ctx context.Context, do func() error) (bill, error) {
	if err := pause(ctx, s.Variant.Settle); err != nil {
		return bill{}, err
	}
	return s.over(ctx, do)
}

// names returns the names of one goroutine.
func (s *site) names(i int) []string {
	names := make([]string, namesEach)
	for k := range names {
		names[k] = s.name(i, k)
	}
	return names
}

// cycleOn goes on until running ends, and finishes the cycle it is in. Failures
// pass; if that many follow each other nothing can be measured.
func cycleOn(running context.Context, client lockers.Locker, names []string, sum *tally) error {
	const most = 100
	ctx := context.WithoutCancel(running)
	for i, inARow := 0, 0; running.Err() == nil; i++ {
		if err := cycle(ctx, client, names[i%len(names)]); err != nil {
			sum.failed.Add(1)
			if inARow++; inARow == most {
				return err
			}
			continue
		}
		sum.done.Add(1)
		inARow = 0
	}
	return nil
}

// cycle takes a name and gives it back.
func cycle(ctx context.Context, client lockers.Locker, name string) error {
	lock, err := client.Try(ctx, name)
	if err != nil {
		return err
	}
	return lock.Release(ctx)
}
