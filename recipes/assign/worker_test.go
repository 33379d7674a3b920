package assign

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestEveryChangeIsEvenedOutWithinTwoTTLsByTheFewestMoves(t *testing.T) {
	withFleet(t, func(t *testing.T, f *fleet) {
		for i := range 8 {
			f.join(fmt.Sprint("w", i))
		}
		f.awaitEven(2 * ttl)
		for i, share := range []int{8, 10, 11} { // the share of the worker that dies, among 8, 7 and 6 workers
			f.kill(fmt.Sprint("w", i))
			begun, moved := f.awaitEven(2 * ttl)
			require.LessOrEqual(t, begun, share, "what the dead one had, and nothing else")
			require.Zero(t, moved)
		}
		for i, share := range []int{10, 9, 8} { // the share of the worker that joins
			f.join(fmt.Sprint("x", i))
			begun, moved := f.awaitEven(2 * ttl)
			require.Equal(t, begun, moved)
			require.LessOrEqual(t, moved, share+1)
			require.GreaterOrEqual(t, moved, share)
		}
		begun, _ := f.counters()
		time.Sleep(20 * ttl)
		require.True(t, f.isEven())
		after, _ := f.counters()
		require.Equal(t, begun, after, "nothing moves while nothing changes")
	})
}

func TestListThatLacksTheWorkerIsTooOld(t *testing.T) {
	withFleet(t, func(t *testing.T, f *fleet) {
		f.join("w0")
		m := f.join("w1")
		f.awaitEven(2 * ttl)
		name := "orders/worker/w1"
		m.connection.hidden.Store(&name)
		begun, _ := f.counters()
		time.Sleep(2 * ttl)
		after, _ := f.counters()
		require.Equal(t, begun, after)
		require.Len(t, m.Partitions(), 32)
	})
}

func TestWorkerThatLeavesHandsOver(t *testing.T) {
	withFleet(t, func(t *testing.T, f *fleet) {
		for i := range 4 {
			f.join(fmt.Sprint("w", i))
		}
		f.awaitEven(2 * ttl)
		f.mu.Lock()
		f.lag, f.idle = time.Second, 0
		f.mu.Unlock()
		leaver := f.workers["w1"]
		delete(f.workers, "w1")
		begun, moved := f.counters()
		began := time.Now()
		require.NoError(t, leaver.Leave(t.Context()))
		require.Less(t, time.Since(began), ttl)
		require.Empty(t, leaver.Partitions())
		f.awaitEven(time.Second)
		after, gone := f.counters()
		require.Equal(t, 16, after-begun)
		require.Equal(t, moved, gone)
		require.Less(t, f.idle, 100*time.Millisecond, "the others wait for each partition when it becomes free")
		leaver.done <- <-leaver.done
		require.NoError(t, leaver.Leave(t.Context()), "again")
	})
}

func TestWorkerWhoseContextEndsStopsAtOnce(t *testing.T) {
	withFleet(t, func(t *testing.T, f *fleet) {
		stay, stop := f.join("w0"), f.join("w1")
		f.awaitEven(2 * ttl)
		stop.cancel()
		synctest.Wait()
		require.Empty(t, stop.Partitions())
		require.GreaterOrEqual(t, len(stay.Partitions()), 32) // more if it rebalances at this very moment
		delete(f.workers, "w1")
		_, moved := f.awaitEven(ttl / 2)
		require.Zero(t, moved)
		err := <-stop.done
		require.ErrorIs(t, err, context.Canceled)
		stop.done <- err
	})
}

// A restarted worker with the same ID waits for its predecessor's leases to expire. If it restarts in time, no other
// worker takes its partitions.
func TestPreferredHolderGetsItsPartitionsBack(t *testing.T) {
	withFleet(t, func(t *testing.T, f *fleet) {
		f.preferred = func(p string) string { return fmt.Sprint("w", p[len(p)-1]-'0') }
		mine := func() {
			t.Helper()
			synctest.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			for p, id := range f.working {
				if id != f.preferred(p) {
					require.Greater(t, f.preferred(p), "w7", "%s is at %s", p, id)
				}
			}
		}
		for i := range 8 {
			f.join(fmt.Sprint("w", i))
		}
		f.awaitEven(2 * ttl)
		time.Sleep(2 * ttl)
		mine()
		f.kill("w3")
		f.awaitEven(2 * ttl)
		f.join("w3")
		f.awaitEven(2 * ttl)
		time.Sleep(2 * ttl)
		require.True(t, f.isEven())
		mine()
	})
}

func TestWorkThatReturnsOrFailsIsReportedAndBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, provider := leasingtest.NewManager(t, leasing.Options{TTL: ttl})
		boom, reported, calls := errors.New("boom"), make(chan error, 10), 0
		worker, err := New(manager, Options{
			Name: "orders", Partitions: []string{"a"},
			Work:    func(context.Context, string, *leasing.Lease) error { calls++; return boom },
			OnError: func(partition string, err error) { reported <- fmt.Errorf("%s: %w", partition, err) },
		})
		require.NoError(t, err)
		done := make(chan error)
		go func() { done <- worker.Run(t.Context()) }()
		require.EqualError(t, <-reported, "a: boom")
		require.EqualError(t, <-reported, "a: boom")
		provider.Use(leasingtest.Fail(leasingtest.List, 1, leasing.ErrUnavailable))
		require.ErrorIs(t, <-reported, leasing.ErrUnavailable)
		require.EqualError(t, <-reported, "a: boom")
		require.Error(t, worker.Run(t.Context()), "it runs")
		provider.Use(leasingtest.Fail(leasingtest.List, leasingtest.Always, leasing.ErrDenied))
		began := time.Now()
		for refused := 0; ; {
			select {
			case err := <-reported:
				if errors.Is(err, leasing.ErrDenied) {
					refused++
				}
				continue
			case err := <-done:
				require.ErrorIs(t, err, leasing.ErrDenied)
				require.Positive(t, refused)
			}
			break
		}
		require.Greater(t, time.Since(began), time.Minute, "the refusal might pass")
	})
}

func TestOptionsThatCannotWork(t *testing.T) {
	manager, _ := leasingtest.NewManager(t, leasing.Options{})
	work := func(context.Context, string, *leasing.Lease) error { return nil }
	good := Options{Name: "orders", Partitions: []string{"a", "b"}, Work: work}
	worker, err := New(manager, good)
	require.NoError(t, err)
	require.NotEmpty(t, worker.ID())
	_, err = New(nil, good)
	require.ErrorIs(t, err, leasing.ErrInvalid)
	for field, change := range map[string]func(*Options){
		"no name":         func(o *Options) { o.Name = "" },
		"no partitions":   func(o *Options) { o.Partitions = nil },
		"twice":           func(o *Options) { o.Partitions = []string{"a", "b", "a"} },
		"empty partition": func(o *Options) { o.Partitions = []string{""} },
		"long":            func(o *Options) { o.Partitions = []string{string(make([]byte, 600))} },
		"no work":         func(o *Options) { o.Work = nil },
		"worker":          func(o *Options) { o.Worker = "a\nb" },
		"wait limit":      func(o *Options) { o.Lease.WaitLimit = time.Second },
		"infinite":        func(o *Options) { o.Lease.TTL = leasing.Infinite },
		"every":           func(o *Options) { o.Every = -1 },
	} {
		options := good
		change(&options)
		_, err := New(manager, options)
		require.ErrorIs(t, err, leasing.ErrInvalid, field)
	}
}

// Whatever happens to the workers, no partition has two workers at the same time (work checks that), and the
// shares soon become even and stay even.
func TestAnyHistoryEndsEven(t *testing.T) {
	rapid.Check(t, func(draw *rapid.T) {
		type step struct {
			What string
			Who  int
			For  time.Duration
		}
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{
				rapid.SampledFrom([]string{"join", "join", "kill", "leave", "stop", "lose", "blink"}).Draw(t, "what"),
				rapid.IntRange(0, 7).Draw(t, "who"),
				time.Duration(rapid.Int64Range(0, int64(2*ttl)).Draw(t, "for")),
			}
		}), 1, 15).Draw(draw, "steps")
		withFleet(t, func(t *testing.T, f *fleet) {
			f.lag, f.partitions = 300*time.Millisecond, names("p", 13)
			f.join("always")
			for _, s := range steps {
				id := fmt.Sprint("w", s.Who)
				m := f.workers[id]
				switch {
				case s.What == "join" && m == nil:
					f.join(fmt.Sprint("w", s.Who))
				case m == nil:
				case s.What == "kill":
					f.kill(id)
				case s.What == "leave":
					delete(f.workers, id)
					go m.Leave(context.Background())
				case s.What == "stop":
					delete(f.workers, id)
					m.cancel()
				case s.What == "lose":
					_, err := m.manager.Break(t.Context(), "orders/worker/"+id, leasing.BreakOptions{})
					require.NoError(t, err)
				case s.What == "blink":
					m.connection.cut.Store(true)
					time.Sleep(s.For / 4)
					m.connection.cut.Store(false)
				}
				time.Sleep(s.For)
			}
			time.Sleep(2*ttl + f.lag)
			require.True(t, f.isEven(), "%v", f.counts())
			begun, _ := f.counters()
			time.Sleep(3 * ttl)
			require.True(t, f.isEven())
			after, _ := f.counters()
			require.Equal(t, begun, after)
		})
	})
}
