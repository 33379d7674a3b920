package managertest_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// loops runs n processes over one backend on which waiters poll. Each process repeatedly acquires, holds and releases the name.
// loops returns the number of leases of each process.
func loops(t *testing.T, n int, hold, rest, span time.Duration) (counts []int64) {
	synctest.Test(t, func(t *testing.T) {
		p := leasingtest.NewProvider()
		p.Use(leasingtest.Delay(leasingtest.Acquire, leasingtest.Always, 50*time.Microsecond))
		p.Use(leasingtest.Delay(leasingtest.Release, leasingtest.Always, 50*time.Microsecond))
		ctx, cancel := context.WithTimeout(t.Context(), span)
		defer cancel()
		had := make([]atomic.Int64, n)
		var all sync.WaitGroup
		for i := range n {
			m := leasingtest.NewManagerOn(t, noAbilities{p}, leasing.Options{})
			all.Go(func() {
				for {
					l, err := m.Acquire(ctx, name)
					if err != nil {
						return
					}
					time.Sleep(hold)
					_ = l.Release(context.Background())
					had[i].Add(1)
					time.Sleep(rest)
				}
			})
		}
		all.Wait()
		for i := range had {
			counts = append(counts, had[i].Load())
		}
	})
	return counts
}

// jain returns Jain's index of fairness: 1 if all counts are equal, 1/n if all but one are 0.
func jain(counts []int64) float64 {
	sum, squares := 0.0, 0.0
	for _, c := range counts {
		sum += float64(c)
		squares += float64(c) * float64(c)
	}
	return sum * sum / (float64(len(counts)) * squares)
}

func total(counts []int64) (sum int64) {
	for _, c := range counts {
		sum += c
	}
	return sum
}

func TestTrap_T72_LoopsOverOneNameShareItWhereWaitersPoll(t *testing.T) {
	for _, c := range []struct {
		processes  int
		hold, span time.Duration
		work       float64 // the smallest permitted share of the time in which the name is held
	}{
		{2, 2 * time.Millisecond, 15 * time.Second, 0.5},
		{20, 2 * time.Millisecond, 15 * time.Second, 0.6},
		{2, 100 * time.Millisecond, 5 * time.Minute, 0.5},
		{2, time.Second, 10 * time.Minute, 0.6},
		{5, 30 * time.Second, 4 * time.Hour, 0.7},
	} {
		t.Run(fmt.Sprint(c.processes, " of ", c.hold), func(t *testing.T) {
			if testing.Short() && c.span > 15*time.Second && c.processes == 2 {
				t.Skip("make test-all runs this test")
			}
			counts := loops(t, c.processes, c.hold, 0, c.span)
			work := float64(total(counts)) * float64(c.hold) / float64(c.span)
			t.Logf("Jain %.3f, held %.0f %% of the time: %v", jain(counts), 100*work, counts)
			require.GreaterOrEqual(t, jain(counts), 0.9)
			require.GreaterOrEqual(t, work, c.work)
		})
	}
}

// Yielding hardly slows a process without competitors.
func TestTrap_T72_LoneLoopIsHardlySlowed(t *testing.T) {
	const cycle = 2100 * time.Microsecond // including the requests
	for _, span := range []time.Duration{200 * time.Millisecond, time.Second, 30 * time.Second} {
		counts := loops(t, 1, 2*time.Millisecond, 0, span)
		paused := 1 - float64(counts[0])*float64(cycle)/float64(span)
		t.Logf("in %v: %d, paused %.1f %% of the time", span, counts[0], 100*paused)
		switch span {
		case 200 * time.Millisecond:
			require.Less(t, paused, 0.02, "not at all")
		case time.Second:
			require.Less(t, paused, 0.08)
		default:
			require.Less(t, paused, 0.02)
		}
	}
	counts := loops(t, 1, time.Minute, 0, 100*time.Hour)
	require.Greater(t, counts[0], int64(100*60*985/1000))
}
