package memlease

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// TestTrap_T28_OneOffNamesAreForgotten uses 100 new names per second for two
// minutes, with a retention of ten seconds.
func TestTrap_T28_OneOffNamesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Retention: 10 * time.Second})
		kept := acquireRequest("kept", time.Hour)
		p.mustAcquire(t, kept)
		for i := range 12_000 {
			req := acquireRequest(fmt.Sprint("reply/", i), time.Second)
			p.mustAcquire(t, req)
			if i%2 == 0 {
				p.mustRelease(t, req) // the others run out
			}
			time.Sleep(10 * time.Millisecond)
			// 1,100 names are held or within their retention. Any other name is
			// forgotten within half as many acquires as there are names.
			require.LessOrEqual(t, p.names(), 2*1_100+shards*sweepBatch)
		}
		require.True(t, p.mustInspect(t, "kept").Held, "what is held is never forgotten")
	})
}

func TestARecordIsKeptForItsRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Retention: time.Minute})
		req := acquireRequest("a", time.Second)
		p.mustAcquire(t, req)
		p.mustRelease(t, req)
		sweep := func() {
			for i := range 100 * shards {
				p.mustAcquire(t, acquireRequest(fmt.Sprint("sweep/", i%10), minTTL))
				time.Sleep(minTTL / 10)
			}
		}
		time.Sleep(time.Minute - 7*time.Second) // a sweep takes 6.4 s
		sweep()
		_, err := p.Acquire(t.Context(), req)
		require.ErrorIs(t, err, abstractions.ErrReleased, "the refused ID is remembered")
		p.mustRelease(t, acquireRequest("a", time.Second)) // restarts the retention
		time.Sleep(30 * time.Second)
		sweep()
		require.Positive(t, p.mustInspect(t, "a").Token)
		time.Sleep(30 * time.Second)
		for i := range 1000 {
			p.mustAcquire(t, acquireRequest(fmt.Sprint("other/", i), time.Hour))
		}
		require.Zero(t, p.mustInspect(t, "a").Token, "forgotten")
	})
}

// TestTrap_T54_TokenRisesAlthoughTheClockWentBack forgets a name, sets the
// wall clock back by a day and acquires the name.
func TestTrap_T54_TokenRisesAlthoughTheClockWentBack(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := New(Options{Retention: time.Minute, Now: func() time.Time { return now }})
	first := acquireRequest("a", time.Second)
	last := p.mustAcquire(t, first).Token
	p.mustRelease(t, first)
	now = now.Add(time.Hour)
	for i := 0; p.mustInspect(t, "a").Token != 0; i++ {
		p.mustAcquire(t, acquireRequest(fmt.Sprint(i), time.Second))
	}
	now = now.Add(-24 * time.Hour)
	require.Greater(t, p.mustAcquire(t, acquireRequest("a", time.Second)).Token, last)
}

// TestSweepKeepsItsBooks checks that the shards stay consistent while many names are forgotten.
func TestSweepKeepsItsBooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Retention: time.Second})
		for i := range 5000 {
			p.mustAcquire(t, acquireRequest(fmt.Sprint(i%700, "/", i%3), time.Duration(1+i%5)*time.Second))
			time.Sleep(7 * time.Millisecond)
		}
		for i := range p.memory.shards {
			s := &p.memory.shards[i]
			require.Len(t, s.order, len(s.records))
			for position, r := range s.order {
				require.Equal(t, position, int(r.position))
				require.Same(t, r, s.records[r.Name])
			}
		}
	})
}

// TestMemoryPerName counts everything: the maps, the records, the names (25
// bytes) and the IDs (36 bytes) of 100,000 held names.
func TestMemoryPerName(t *testing.T) {
	const names = 100_000
	p := New(Options{})
	before := heap()
	for i := range names {
		p.mustAcquire(t, acquireRequest(fmt.Sprintf("component/purpose/%07d", i), time.Hour))
	}
	perName := (heap() - before) / names
	t.Logf("%d bytes per name", perName)
	require.Less(t, perName, uint64(512))
	runtime.KeepAlive(p)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
