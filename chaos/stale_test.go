package chaos_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
	memlease "github.com/distributedleasing/leasing/providers/memory"
	"github.com/distributedleasing/leasing/recipes/schedule"
)

func TestStaleReadsShowWhatWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultStaleRead, Delay: 3 * second}, When: chaos.Policy{Sequence: "....x.x"}})
		holder := func() string {
			record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
			require.NoError(t, err)
			id := record.Metadata["of"]
			assert.Equal(t, abstractions.FingerprintOf(id), record.Fingerprint)
			record.Metadata["of"] = "the caller, who may change what is his"
			return id
		}
		turn := func(id string) {
			_, err := b.Provider.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: true})
			require.NoError(t, err)
			req := claim("n", id)
			req.Metadata = map[string]string{"of": id}
			_, err = b.Provider.Acquire(t.Context(), req)
			require.NoError(t, err)
			time.Sleep(second)
		}
		var seen []string
		for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			turn(id)
			seen = append(seen, holder())
		}
		// The fifth read, at 5 s, may return an answer from 2 s or earlier, and the seventh, at 7
		// s, an answer from 4 s or earlier. The wrapper keeps one answer per 3 s: the answers from
		// 1 s and 4 s.
		assert.Equal(t, []string{"a", "b", "c", "d", "a", "f", "d"}, seen)
		assert.Len(t, b.times(chaos.OpInspect), 7)
	})
}

// If a caller modifies the answer it got, the next caller's answer does not change.
func TestStaleAnswerIsTheCallersOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultStaleRead, Delay: second}})
		req := claim("n", "id")
		req.Metadata = map[string]string{"of": "id"}
		_, err := b.Provider.Acquire(t.Context(), req)
		require.NoError(t, err)
		for i := range 3 {
			record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
			require.NoError(t, err)
			require.Equal(t, "id", record.Metadata["of"])
			record.Metadata["of"] = "another"
			if i == 0 {
				time.Sleep(second)
			}
		}
		require.Equal(t, 2, p.Report().Injected, "the same old answer, twice")
	})
}

// Stale reads return newer answers after a while, like a replica that catches up.
func TestStaleReadsAreNoStalerThanTheyNeedBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultStaleRead, Delay: second}})
		held := func() bool {
			record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
			require.NoError(t, err)
			return record.Held
		}
		require.False(t, held())
		_, err := b.Provider.Acquire(t.Context(), claim("n", "id"))
		require.NoError(t, err)
		for range 4 {
			time.Sleep(second)
			held()
		}
		require.True(t, held())
	})
}

func TestStaleReadsOfListsAndHistories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultStaleRead}, When: chaos.Policy{Skip: 2}})
		_, err := b.Provider.Acquire(t.Context(), claim("n", "first"))
		require.NoError(t, err)
		list := func(prefix string) abstractions.ListResult {
			result, err := p.List(t.Context(), abstractions.ListRequest{Prefix: prefix})
			require.NoError(t, err)
			return result
		}
		history := func() abstractions.HistoryResult {
			result, err := p.History(t.Context(), abstractions.HistoryRequest{Name: "n"})
			require.NoError(t, err)
			return result
		}
		firstList, firstHistory := list(""), history()
		require.NoError(t, b.Provider.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "first"}))
		assert.Equal(t, firstList, list(""))
		assert.Equal(t, firstHistory, history())
		assert.Empty(t, list("other").Records, "another request has no earlier answer")
		require.NoError(t, p.Disable())
		assert.NotEqual(t, firstList, list(""))
	})
}

// TestStaleReadsAreTheCallersOwn: if a caller modifies the answer it got, later answers do not
// change.
func TestStaleReadsAreTheCallersOwn(t *testing.T) {
	p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultStaleRead}, When: chaos.Policy{Skip: 1, PerName: true}})
	req := claim("n", "id")
	req.Metadata = map[string]string{"of": "id"}
	_, err := b.Provider.Acquire(t.Context(), req)
	require.NoError(t, err)
	for range 3 {
		record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		require.Equal(t, "id", record.Metadata["of"])
		record.Metadata["of"] = "changed"
		list, err := p.List(t.Context(), abstractions.ListRequest{})
		require.NoError(t, err)
		require.Equal(t, "n", list.Records[0].Name)
		require.Equal(t, "id", list.Records[0].Metadata["of"])
		list.Records[0].Metadata["of"] = "changed"
		list.Records[0].Name = "changed"
		history, err := p.History(t.Context(), abstractions.HistoryRequest{Name: "n"})
		require.NoError(t, err)
		require.Equal(t, abstractions.FingerprintOf("id"), history.Entries[0].Fingerprint)
		history.Entries[0].Fingerprint = abstractions.FingerprintOf("changed")
	}
	require.NoError(t, b.Provider.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "id"}))
	record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.True(t, record.Held, "it is stale")
}

// failingInspector is a backend whose first Inspect fails.
type failingInspector struct {
	*backend
	calls int
}

func (f *failingInspector) Inspect(ctx context.Context, req abstractions.InspectRequest) (leasing.Record, error) {
	if f.calls++; f.calls == 1 {
		return leasing.Record{}, leasing.ErrUnavailable
	}
	return f.backend.Inspect(ctx, req)
}

// TestAFailedReadIsNotServedAgain: a failed read leaves no answer for a later stale read.
func TestAFailedReadIsNotServedAgain(t *testing.T) {
	inner := &failingInspector{backend: newBackend()}
	p, err := chaos.Wrap(inner, chaos.Plan{Rules: []chaos.Rule{{Fault: chaos.Fault{Kind: chaos.FaultStaleRead}}}}, chaos.Options{})
	require.NoError(t, err)
	defer p.Close()
	_, err = inner.Provider.Acquire(t.Context(), claim("n", "id"))
	require.NoError(t, err)
	_, err = p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	require.ErrorIs(t, err, leasing.ErrUnavailable)
	record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.True(t, record.Held)
	require.Zero(t, p.Report().Injected)
}

// TestStaleReadsOfAnOwner: the rule applies only to reads by its owner.
func TestStaleReadsOfAnOwner(t *testing.T) {
	for owner, want := range map[string]bool{"me": true, "you": false} {
		p, b := wrappedWith(t, chaos.Options{Owner: owner}, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultStaleRead}, Match: chaos.Match{Owners: []string{"me"}}})
		_, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		_, err = b.Provider.Acquire(t.Context(), claim("n", "id"))
		require.NoError(t, err)
		record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		assert.Equal(t, want, !record.Held)
	}
}

// Code that relies on reads, such as a job that runs once per tick, must allow for stale ones.
func TestTrap_T91_StaleReadsAreReported_memory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memlease.New(memlease.Options{})
		defer backend.Close()
		ctx, end := context.WithTimeout(t.Context(), 10*time.Minute)
		defer end()
		var mu sync.Mutex
		runs := map[time.Time]int{}
		var processes sync.WaitGroup
		for range 3 {
			p, err := chaos.Wrap(backend, chaos.Plan{Rules: []chaos.Rule{
				{Fault: chaos.Fault{Kind: chaos.FaultStaleRead, Delay: 3 * time.Second}},
				{Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 2 * time.Second}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpAcquire}}},
			}}, chaos.Options{KeepOpen: true})
			require.NoError(t, err)
			defer p.Close()
			manager, err := leasing.NewManager(p, leasing.Options{})
			require.NoError(t, err)
			processes.Go(func() {
				defer manager.Close(context.Background())
				_ = schedule.Run(ctx, manager, schedule.Options{Name: "job", Every: time.Minute, OnError: func(time.Time, error) {}}, func(ctx context.Context, tick schedule.Tick) error {
					mu.Lock()
					defer mu.Unlock()
					runs[tick.At]++
					return nil
				})
			})
		}
		processes.Wait()
		require.NotEmpty(t, runs)
		for tick, n := range runs {
			require.Equal(t, 1, n, tick)
		}
	})
}
