package deadlock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	after = time.Second
	every = 2 * time.Second
	ttl   = 10 * time.Second
)

// fixture is a provider in virtual time, and its actors.
type fixture struct {
	*testing.T
	provider *leasingtest.Provider
}

func withFixture(t *testing.T, test func(t *testing.T, s *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, &fixture{t, leasingtest.NewProvider()}) })
}

// testActor is an actor in a process of its own.
type testActor struct {
	f       *fixture
	name    string
	manager *leasing.Manager
	*Actor

	mu    sync.Mutex
	found []*Error // by the observer
}

func (s *fixture) actor(name string, options Options) *testActor {
	s.Helper()
	p := &testActor{f: s, name: name, manager: leasingtest.NewManagerOn(s.T, s.provider, leasing.Options{Owner: name, TTL: ttl})}
	options.Observer = func(e *Error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.found = append(p.found, e)
	}
	actor, err := New(p.manager, options)
	require.NoError(s, err)
	p.Actor = actor
	return p
}

// with returns the actor with the options of an acquire, which may be nil.
func (p *testActor) with(options *leasing.AcquireOptions) *Actor {
	if options == nil {
		return p.Actor
	}
	return p.With(*options)
}

// takes acquires a free name.
func (p *testActor) takes(name string, options *leasing.AcquireOptions) *leasing.Lease {
	p.f.Helper()
	lease, err := p.with(options).TryAcquire(p.f.Context(), name)
	require.NoError(p.f, err)
	p.f.Cleanup(func() { _ = lease.Release(context.Background()) })
	return lease
}

// acquired is the outcome of an acquire.
type acquired struct {
	lease *leasing.Lease
	err   error
}

// acquires waits for a name in the background.
func (p *testActor) acquires(ctx context.Context, name string, options *leasing.AcquireOptions) <-chan acquired {
	result := make(chan acquired, 1)
	go func() {
		lease, err := p.with(options).Acquire(ctx, name)
		if err == nil {
			p.f.Cleanup(func() { _ = lease.Release(context.Background()) })
		}
		result <- acquired{lease, err}
	}()
	synctest.Wait()
	return result
}

func (p *testActor) cycles() []*Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found
}

// metadata returns the metadata of a lease, as read by another process.
func (s *fixture) metadata(name string) map[string]string {
	s.Helper()
	r, err := s.actor("onlooker", Options{}).manager.Inspect(s.Context(), name)
	require.NoError(s, err)
	return r.Metadata
}

func requirePending(t *testing.T, result <-chan acquired) {
	t.Helper()
	select {
	case r := <-result:
		require.Fail(t, "the wait is over", "%v", r.err)
	default:
	}
}

func TestTheNewestOfACycleGivesWay(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		var out bytes.Buffer
		ann, bob := s.actor("ann", Options{}), s.actor("bob", Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
		ann.takes("a", nil)
		b := bob.takes("b", nil)
		anns := ann.acquires(s.Context(), "b", nil)
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		bobs := bob.acquires(s.Context(), "a", nil)
		r := <-bobs
		require.LessOrEqual(t, time.Since(began), after+every+every/confirmSpeedup)
		cycle, is := errors.AsType[*Error](r.err)
		require.True(t, is, "%v", r.err)
		require.EqualError(t, cycle, `deadlock: "bob" holds "b" and waits for "a"; "ann" holds "a" and waits for "b"`)
		require.Equal(t, leasing.FingerprintOf(b.ID()), cycle.Waits[0].Fingerprint)
		require.Equal(t, b.Token(), cycle.Waits[0].Token)
		require.ErrorIs(t, r.err, leasing.ErrHeld)
		require.NoError(t, b.Err(), "what it holds is its own to release")
		require.Contains(t, out.String(), "level=WARN")
		require.Contains(t, out.String(), "newest=bob")

		requirePending(t, anns)
		require.NoError(t, b.Release(t.Context()))
		require.NoError(t, (<-anns).err)
		require.Len(t, bob.cycles(), 1)
	})
}

func TestAnActorThatWaitsForItselfIsACycleOfOne(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		ann := s.actor("ann", Options{})
		ann.takes("a", nil)
		r := <-ann.acquires(s.Context(), "a", nil)
		cycle, is := errors.AsType[*Error](r.err)
		require.True(t, is, "%v", r.err)
		require.EqualError(t, cycle, `deadlock: "ann" holds "a" and waits for "a"`)
	})
}

// meters, meter and counter sum the package's only counter.
type (
	meters struct {
		metricnoop.MeterProvider
		c *counter
	}
	meter struct {
		metricnoop.Meter
		c *counter
	}
	counter struct {
		metricnoop.Int64Counter
		name string
		sum  atomic.Int64
	}
)

func (m meters) Meter(string, ...metric.MeterOption) metric.Meter { return meter{c: m.c} }

func (m meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	m.c.name = name
	return m.c, nil
}

func (c *counter) Add(_ context.Context, n int64, _ ...metric.AddOption) { c.sum.Add(n) }

func TestCyclesAreCounted(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		var c counter
		ann := s.actor("ann", Options{MeterProvider: meters{c: &c}})
		ann.takes("a", nil)
		require.Error(t, (<-ann.acquires(s.Context(), "a", nil)).err)
		require.Equal(t, "leasing.deadlock.count", c.name)
		require.EqualValues(t, 1, c.sum.Load())
	})
}

// All actors find the cycle at the same moment, and one of them gives way.
func TestOneOfThoseWhoFindACycleAtOnceGivesWay(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		ann, bob := s.actor("ann", Options{}), s.actor("bob", Options{})
		a, b := ann.takes("a", nil), bob.takes("b", nil)
		var published atomic.Int32
		s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			switch {
			case call.Op != leasingtest.Renew:
			case published.Add(1) <= 2: // neither checks for cycles before both have published their waits
				defer time.Sleep(100 * time.Millisecond)
			default: // neither removes its wait before both have checked
				time.Sleep(100 * time.Millisecond)
			}
			return apply()
		})
		anns, bobs := ann.acquires(s.Context(), "b", nil), bob.acquires(s.Context(), "a", nil)
		time.Sleep(after + every)
		synctest.Wait()
		require.Len(t, ann.cycles(), 1)
		require.Len(t, bob.cycles(), 1)
		loser, lease, winner := anns, a, bobs
		if ann.cycles()[0].Newest().Owner == "bob" {
			loser, lease, winner = bobs, b, anns
		}
		_, is := errors.AsType[*Error]((<-loser).err)
		require.True(t, is)
		requirePending(t, winner)
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, (<-winner).err)
	})
}

// guess is a provider that reports every holder as unconfirmed.
type guess struct{ *leasingtest.Provider }

func (g guess) Inspect(ctx context.Context, req abstractions.InspectRequest) (leasing.Record, error) {
	r, err := g.Provider.Inspect(ctx, req)
	r.Unconfirmed = true
	return r, err
}

func TestAGuessIsNoCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := leasingtest.NewManagerOn(t, guess{leasingtest.NewProvider()}, leasing.Options{})
		ann, err := New(m, Options{})
		require.NoError(t, err)
		a, err := ann.Acquire(t.Context(), "a")
		require.NoError(t, err)
		_, err = ann.With(leasing.AcquireOptions{WaitLimit: 10 * every}).Acquire(t.Context(), "a")
		_, is := errors.AsType[*Error](err)
		require.False(t, is)
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.NoError(t, a.Release(t.Context()))
	})
}

// An actor that waits for a member of a cycle is not itself in the cycle.
func TestWhoOnlyWaitsForACycleIsNotInIt(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		ann, bob, eve := s.actor("ann", Options{Policy: Report}), s.actor("bob", Options{Policy: Report}), s.actor("eve", Options{Policy: Report})
		ann.takes("a", nil)
		bob.takes("b", nil)
		eve.takes("e", nil)
		ctx, cancel := context.WithCancel(s.Context())
		results := []<-chan acquired{ann.acquires(ctx, "b", nil), bob.acquires(ctx, "a", nil), eve.acquires(ctx, "a", nil)}
		time.Sleep(10 * every)
		require.Len(t, ann.cycles(), 1, "once")
		require.Len(t, bob.cycles(), 1)
		require.Empty(t, eve.cycles())
		require.Equal(t, ann.cycles()[0].Newest(), bob.cycles()[0].Newest(), "they agree")
		require.Equal(t, "ann", ann.cycles()[0].Waits[0].Owner)
		require.Equal(t, "bob", bob.cycles()[0].Waits[0].Owner)
		cancel()
		for _, result := range results {
			require.ErrorIs(t, (<-result).err, context.Canceled, "reported, and left alone")
		}
	})
}

func TestBreakPolicyEndsTheLeaseOfTheNewest(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		ann, bob := s.actor("ann", Options{Policy: Break}), s.actor("bob", Options{Policy: Break})
		a, b := ann.takes("a", nil), bob.takes("b", nil)
		anns := ann.acquires(s.Context(), "b", nil)
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := context.WithCancel(s.Context())
		bobs := bob.acquires(ctx, "a", nil)
		r := <-anns
		require.NoError(t, r.err)
		var lost *leasing.LostError
		require.ErrorAs(t, b.Err(), &lost)
		require.Equal(t, leasing.LostBroken, lost.Reason)
		require.Equal(t, "ann", lost.BrokenBy)
		require.Contains(t, lost.BreakReason, `"bob" holds "b" and waits for "a"`)
		require.NoError(t, a.Err())
		require.Equal(t, 1, s.provider.Count(leasingtest.Break), "one of them")
		requirePending(t, bobs)
		cancel()
		require.ErrorIs(t, (<-bobs).err, context.Canceled)
	})
}

// The user's own metadata stay unchanged, and a wait leaves nothing behind, however it ends.
func TestMetadataShowTheWaitWhileItLasts(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, theirs *leasing.Lease, cancel context.CancelFunc){
		"granted": func(t *testing.T, theirs *leasing.Lease, _ context.CancelFunc) {
			require.NoError(t, theirs.Release(t.Context()))
		},
		"cancelled": func(_ *testing.T, _ *leasing.Lease, cancel context.CancelFunc) { cancel() },
		"limit":     func(*testing.T, *leasing.Lease, context.CancelFunc) {},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, func(t *testing.T, s *fixture) {
				ann, bob := s.actor("ann", Options{}), s.actor("bob", Options{})
				ann.takes("a", &leasing.AcquireOptions{Metadata: map[string]string{"cursor": "7"}})
				ann.takes("a2", nil)
				theirs := bob.takes("b", nil)
				ctx, cancel := context.WithCancel(s.Context())
				defer cancel()
				began := time.Now()
				result := ann.acquires(ctx, "b", &leasing.AcquireOptions{WaitLimit: time.Minute})
				time.Sleep(after - time.Millisecond)
				require.Equal(t, map[string]string{"cursor": "7"}, s.metadata("a"), "short waits cost nothing")
				time.Sleep(2 * time.Millisecond)
				synctest.Wait()
				published := s.metadata("a")
				require.Equal(t, "7", published["cursor"])
				require.Contains(t, published[Key], `"name":"b"`)
				require.Equal(t, published[Key], s.metadata("a2")[Key])
				end(t, theirs, cancel)
				r := <-result
				switch name {
				case "granted":
					require.NoError(t, r.err)
					require.Equal(t, "ann", r.lease.Owner())
				case "cancelled":
					require.ErrorIs(t, r.err, context.Canceled)
				case "limit":
					require.ErrorIs(t, r.err, leasing.ErrHeld)
					var held *leasing.HeldError
					require.ErrorAs(t, r.err, &held)
					require.Equal(t, "bob", held.Holder.Owner)
					require.InDelta(t, time.Minute.Seconds(), time.Since(began).Seconds(), 0.1)
				}
				require.Equal(t, map[string]string{"cursor": "7"}, s.metadata("a"))
				require.Empty(t, s.metadata("a2"))
			})
		})
	}
}

// An actor without leases blocks no other actor, so it does not look for cycles.
func TestAWaitOfOneThatHoldsNothingCostsNothing(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		ann, bob := s.actor("ann", Options{}), s.actor("bob", Options{})
		theirs := bob.takes("b", nil)
		once := ann.takes("a", nil)
		require.NoError(t, once.Release(t.Context()))
		inspects := s.provider.Count(leasingtest.Inspect)
		result := ann.acquires(s.Context(), "b", nil)
		time.Sleep(5 * every)
		require.Equal(t, inspects, s.provider.Count(leasingtest.Inspect))
		require.NoError(t, theirs.Release(t.Context()))
		require.NoError(t, (<-result).err)
	})
}

// A cycle that is gone at the second check was not a deadlock.
func TestAWaitThatBeginsAnewIsAnotherOne(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		ann := s.actor("ann", Options{Policy: Report})
		ann.takes("a", nil)
		onlooker := s.actor("bob", Options{})
		b := onlooker.takes("b", nil)
		var n atomic.Int64
		s.provider.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Inspect && call.Name == "b" { // bob publishes a new wait before each check
				again := edge{Name: "a", Since: time.Now(), Wait: fmt.Sprint(n.Add(1))}
				require.NoError(t, b.SetMetadata(context.WithoutCancel(ctx), map[string]string{Key: again.encode()}))
			}
			return apply()
		})
		ctx, cancel := context.WithCancel(s.Context())
		result := ann.acquires(ctx, "b", nil)
		time.Sleep(5 * every)
		require.Greater(t, n.Load(), int64(5))
		require.Empty(t, ann.cycles())
		cancel()
		<-result
	})
}

// A backend that hangs delays the end of a cancelled wait by about two seconds, and no more.
func TestACancelledWaitEndsSoonAlsoIfTheBackendHangs(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		ann, bob := s.actor("ann", Options{}), s.actor("bob", Options{})
		ann.takes("a", nil)
		bob.takes("b", nil)
		ctx, cancel := context.WithCancel(s.Context())
		result := ann.acquires(ctx, "b", nil)
		time.Sleep(after + time.Millisecond)
		s.provider.Use(leasingtest.Delay(leasingtest.Renew, leasingtest.Always, time.Hour))
		began := time.Now()
		cancel()
		require.ErrorIs(t, (<-result).err, context.Canceled)
		require.LessOrEqual(t, time.Since(began), unpublishTimeout+time.Second)
		s.provider.Use(nil)
	})
}

func TestWhatCanNotWorkIsRefused(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		ann, bob := s.actor("ann", Options{}), s.actor("bob", Options{})
		for _, options := range []Options{{Policy: "kill"}, {After: -1}, {Every: -time.Second}} {
			_, err := New(ann.manager, options)
			require.ErrorIs(t, err, leasing.ErrInvalid, "%+v", options)
		}
		_, err := New(nil, Options{})
		require.ErrorIs(t, err, leasing.ErrInvalid)

		theirs := bob.takes("b", nil)
		result := ann.acquires(s.Context(), "b", nil)
		_, err = ann.Acquire(s.Context(), "c")
		require.ErrorIs(t, err, leasing.ErrInvalid)
		require.ErrorContains(t, err, "one wait of an actor at a time")
		require.NoError(t, theirs.Release(t.Context()))
		got := <-result
		require.NoError(t, got.err)
		require.NoError(t, got.lease.Release(t.Context()))
		lease, err := ann.Acquire(s.Context(), "c")
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))

		_, err = ann.With(leasing.AcquireOptions{WaitLimit: -1}).Acquire(s.Context(), "c")
		require.ErrorContains(t, err, "WaitLimit")
		ended, cancel := context.WithCancel(s.Context())
		cancel()
		_, err = ann.Acquire(ended, "c")
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, ann.manager.Close(context.Background()))
		_, err = ann.Acquire(s.Context(), "c")
		require.ErrorIs(t, err, leasing.ErrClosed)
	})
}

// Metadata under Key that this package did not write is not a wait.
func TestForeignMetadataAreNoWait(t *testing.T) {
	for _, text := range []string{"", "x", "{}", `{"name":"a"}`, `{"name":"","wait":"1"}`, `{"name":"a","wait":7}`, "null", `["a"]`} {
		_, waits := decodeEdge(leasing.Record{Metadata: map[string]string{Key: text}})
		require.False(t, waits, text)
	}
	_, waits := decodeEdge(leasing.Record{Metadata: map[string]string{Key: edge{Name: "a", Since: time.Now(), Wait: "1"}.encode()}})
	require.True(t, waits)
}

func TestHeldLongerThan(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		ann := s.actor("ann", Options{})
		ann.takes("jobs/old", nil)
		ann.takes("other", nil)
		time.Sleep(time.Hour)
		ann.takes("jobs/new", nil)
		records, err := HeldLongerThan(s.Context(), ann.manager, "jobs/", time.Minute)
		require.NoError(t, err)
		require.Len(t, records, 1)
		require.Equal(t, "jobs/old", records[0].Name)
	})
}

// T233: an actor that gave up its wait while it was cut off still has that wait in the metadata.
func TestTrap_T233_AWaitThatWasGivenUpWhileCutOffMakesNoCycle(t *testing.T) {
	for _, policy := range []Policy{Refuse, Report, Break} {
		withFixture(t, func(t *testing.T, s *fixture) {
			ann, bob := s.actor("ann", Options{Policy: policy}), s.actor("bob", Options{Policy: policy})
			a := ann.takes("a", &leasing.AcquireOptions{TTL: time.Minute})
			b := bob.takes("b", nil)
			ctx, giveUp := context.WithCancel(s.Context())
			anns := ann.acquires(ctx, "b", nil)
			time.Sleep(after + every)
			heal := s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
				if call.Name == "a" && call.Op == leasingtest.Renew {
					return leasing.ErrUnavailable
				}
				return apply()
			})
			giveUp()
			require.ErrorIs(t, (<-anns).err, context.Canceled)
			require.Contains(t, s.metadata("a")[Key], `"b"`, "others can't know")
			bobs := bob.acquires(s.Context(), "a", nil)
			time.Sleep(after + 5*every)
			requirePending(t, bobs)
			require.Empty(t, bob.cycles())
			require.NoError(t, b.Err())
			heal()
			require.NoError(t, a.Release(s.Context()))
			require.NoError(t, (<-bobs).err)
		})
	}
}

func TestACycleIsFoundWhenAnActorIsBack(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		ann, bob := s.actor("ann", Options{}), s.actor("bob", Options{})
		ann.takes("a", &leasing.AcquireOptions{TTL: time.Minute})
		bob.takes("b", nil)
		anns := ann.acquires(s.Context(), "b", nil)
		time.Sleep(after + every)
		heal := s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Name == "a" && call.Op == leasingtest.Renew {
				return leasing.ErrUnavailable
			}
			return apply()
		})
		bobs := bob.acquires(s.Context(), "a", nil)
		time.Sleep(after + 3*every)
		requirePending(t, bobs)
		heal()
		got := <-bobs
		require.ErrorAs(t, got.err, new(*Error))
		for _, lease := range bob.leases() {
			require.NoError(t, lease.Release(s.Context()))
		}
		require.NoError(t, (<-anns).err)
	})
}
