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

// stage is a provider in virtual time, and its actors.
type stage struct {
	*testing.T
	provider *leasingtest.Provider
}

func onStage(t *testing.T, play func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { play(t, &stage{t, leasingtest.NewProvider()}) })
}

// player is an actor in a process of its own.
type player struct {
	s       *stage
	name    string
	manager *leasing.Manager
	*Actor

	mu    sync.Mutex
	found []*Error // by the observer
}

func (s *stage) player(name string, options Options) *player {
	s.Helper()
	p := &player{s: s, name: name, manager: leasingtest.NewManagerOn(s.T, s.provider, leasing.Options{Owner: name, TTL: ttl})}
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
func (p *player) with(options *leasing.AcquireOptions) *Actor {
	if options == nil {
		return p.Actor
	}
	return p.With(*options)
}

// has takes a free name.
func (p *player) has(name string, options *leasing.AcquireOptions) *leasing.Lease {
	p.s.Helper()
	lease, err := p.with(options).TryAcquire(p.s.Context(), name)
	require.NoError(p.s, err)
	p.s.Cleanup(func() { _ = lease.Release(context.Background()) })
	return lease
}

// acquired is the outcome of an acquire.
type acquired struct {
	lease *leasing.Lease
	err   error
}

// wants waits for a name in the background.
func (p *player) wants(ctx context.Context, name string, options *leasing.AcquireOptions) <-chan acquired {
	result := make(chan acquired, 1)
	go func() {
		lease, err := p.with(options).Acquire(ctx, name)
		if err == nil {
			p.s.Cleanup(func() { _ = lease.Release(context.Background()) })
		}
		result <- acquired{lease, err}
	}()
	synctest.Wait()
	return result
}

func (p *player) circles() []*Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found
}

// metadata returns the metadata of a lease as another process reads the lease.
func (s *stage) metadata(name string) map[string]string {
	s.Helper()
	r, err := s.player("onlooker", Options{}).manager.Inspect(s.Context(), name)
	require.NoError(s, err)
	return r.Metadata
}

func pending(t *testing.T, result <-chan acquired) {
	t.Helper()
	select {
	case r := <-result:
		require.Fail(t, "the wait is over", "%v", r.err)
	default:
	}
}

func TestTheNewestOfACircleGivesWay(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		var out bytes.Buffer
		ann, bob := s.player("ann", Options{}), s.player("bob", Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
		ann.has("a", nil)
		b := bob.has("b", nil)
		anns := ann.wants(s.Context(), "b", nil)
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		bobs := bob.wants(s.Context(), "a", nil)
		r := <-bobs
		require.LessOrEqual(t, time.Since(began), after+every+every/soonLooks)
		circle, is := errors.AsType[*Error](r.err)
		require.True(t, is, "%v", r.err)
		require.EqualError(t, circle, `deadlock: "bob" holds "b" and waits for "a"; "ann" holds "a" and waits for "b"`)
		require.Equal(t, leasing.FingerprintOf(b.ID()), circle.Waits[0].Fingerprint)
		require.Equal(t, b.Token(), circle.Waits[0].Token)
		require.ErrorIs(t, r.err, leasing.ErrHeld)
		require.NoError(t, b.Err(), "what it holds is its own to release")
		require.Contains(t, out.String(), "level=WARN")
		require.Contains(t, out.String(), "newest=bob")

		pending(t, anns)
		require.NoError(t, b.Release(t.Context()))
		require.NoError(t, (<-anns).err)
		require.Len(t, bob.circles(), 1)
	})
}

func TestAnActorThatWaitsForItselfIsACircleOfOne(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		ann := s.player("ann", Options{})
		ann.has("a", nil)
		r := <-ann.wants(s.Context(), "a", nil)
		circle, is := errors.AsType[*Error](r.err)
		require.True(t, is, "%v", r.err)
		require.EqualError(t, circle, `deadlock: "ann" holds "a" and waits for "a"`)
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

func TestCirclesAreCounted(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		var c counter
		ann := s.player("ann", Options{MeterProvider: meters{c: &c}})
		ann.has("a", nil)
		require.Error(t, (<-ann.wants(s.Context(), "a", nil)).err)
		require.Equal(t, "leasing.deadlock.count", c.name)
		require.EqualValues(t, 1, c.sum.Load())
	})
}

// All actors find the circle at the same moment, and one of them gives way.
func TestOneOfThoseWhoFindACircleAtOnceGivesWay(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		ann, bob := s.player("ann", Options{}), s.player("bob", Options{})
		a, b := ann.has("a", nil), bob.has("b", nil)
		var said atomic.Int32
		s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			switch {
			case call.Op != leasingtest.Renew:
			case said.Add(1) <= 2: // neither looks before both have published what they want
				defer time.Sleep(100 * time.Millisecond)
			default: // nor does either take that back before both have looked
				time.Sleep(100 * time.Millisecond)
			}
			return apply()
		})
		anns, bobs := ann.wants(s.Context(), "b", nil), bob.wants(s.Context(), "a", nil)
		time.Sleep(after + every)
		synctest.Wait()
		require.Len(t, ann.circles(), 1)
		require.Len(t, bob.circles(), 1)
		loser, lease, winner := anns, a, bobs
		if ann.circles()[0].Newest().Owner == "bob" {
			loser, lease, winner = bobs, b, anns
		}
		_, is := errors.AsType[*Error]((<-loser).err)
		require.True(t, is)
		pending(t, winner)
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, (<-winner).err)
	})
}

// guess is a provider that shows unconfirmed holders.
type guess struct{ *leasingtest.Provider }

func (g guess) Inspect(ctx context.Context, req abstractions.InspectRequest) (leasing.Record, error) {
	r, err := g.Provider.Inspect(ctx, req)
	r.Unconfirmed = true
	return r, err
}

func TestAGuessIsNoCircle(t *testing.T) {
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

// An actor that waits for a member of a circle is not itself in the circle.
func TestWhoOnlyWaitsForACircleIsNotInIt(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		ann, bob, eve := s.player("ann", Options{Policy: Report}), s.player("bob", Options{Policy: Report}), s.player("eve", Options{Policy: Report})
		ann.has("a", nil)
		bob.has("b", nil)
		eve.has("e", nil)
		ctx, cancel := context.WithCancel(s.Context())
		results := []<-chan acquired{ann.wants(ctx, "b", nil), bob.wants(ctx, "a", nil), eve.wants(ctx, "a", nil)}
		time.Sleep(10 * every)
		require.Len(t, ann.circles(), 1, "once")
		require.Len(t, bob.circles(), 1)
		require.Empty(t, eve.circles())
		require.Equal(t, ann.circles()[0].Newest(), bob.circles()[0].Newest(), "they agree")
		require.Equal(t, "ann", ann.circles()[0].Waits[0].Owner)
		require.Equal(t, "bob", bob.circles()[0].Waits[0].Owner)
		cancel()
		for _, result := range results {
			require.ErrorIs(t, (<-result).err, context.Canceled, "reported, and left alone")
		}
	})
}

func TestBreakPolicyEndsTheLeaseOfTheNewest(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		ann, bob := s.player("ann", Options{Policy: Break}), s.player("bob", Options{Policy: Break})
		a, b := ann.has("a", nil), bob.has("b", nil)
		anns := ann.wants(s.Context(), "b", nil)
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := context.WithCancel(s.Context())
		bobs := bob.wants(ctx, "a", nil)
		r := <-anns
		require.NoError(t, r.err)
		var lost *leasing.LostError
		require.ErrorAs(t, b.Err(), &lost)
		require.Equal(t, leasing.LostBroken, lost.Reason)
		require.Equal(t, "ann", lost.BrokenBy)
		require.Contains(t, lost.BreakReason, `"bob" holds "b" and waits for "a"`)
		require.NoError(t, a.Err())
		require.Equal(t, 1, s.provider.Count(leasingtest.Break), "one of them")
		pending(t, bobs)
		cancel()
		require.ErrorIs(t, (<-bobs).err, context.Canceled)
	})
}

// The user's own metadata stay, and a wait leaves nothing behind, however it ends.
func TestMetadataShowTheWaitWhileItLasts(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, theirs *leasing.Lease, cancel context.CancelFunc){
		"granted": func(t *testing.T, theirs *leasing.Lease, _ context.CancelFunc) {
			require.NoError(t, theirs.Release(t.Context()))
		},
		"cancelled": func(_ *testing.T, _ *leasing.Lease, cancel context.CancelFunc) { cancel() },
		"limit":     func(*testing.T, *leasing.Lease, context.CancelFunc) {},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(t *testing.T, s *stage) {
				ann, bob := s.player("ann", Options{}), s.player("bob", Options{})
				ann.has("a", &leasing.AcquireOptions{Metadata: map[string]string{"cursor": "7"}})
				ann.has("a2", nil)
				theirs := bob.has("b", nil)
				ctx, cancel := context.WithCancel(s.Context())
				defer cancel()
				began := time.Now()
				result := ann.wants(ctx, "b", &leasing.AcquireOptions{WaitLimit: time.Minute})
				time.Sleep(after - time.Millisecond)
				require.Equal(t, map[string]string{"cursor": "7"}, s.metadata("a"), "short waits cost nothing")
				time.Sleep(2 * time.Millisecond)
				synctest.Wait()
				said := s.metadata("a")
				require.Equal(t, "7", said["cursor"])
				require.Contains(t, said[Key], `"name":"b"`)
				require.Equal(t, said[Key], s.metadata("a2")[Key])
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

// An actor without leases blocks no other actor.
func TestAWaitOfOneThatHoldsNothingCostsNothing(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		ann, bob := s.player("ann", Options{}), s.player("bob", Options{})
		theirs := bob.has("b", nil)
		once := ann.has("a", nil)
		require.NoError(t, once.Release(t.Context()))
		inspects := s.provider.Count(leasingtest.Inspect)
		result := ann.wants(s.Context(), "b", nil)
		time.Sleep(5 * every)
		require.Equal(t, inspects, s.provider.Count(leasingtest.Inspect))
		require.NoError(t, theirs.Release(t.Context()))
		require.NoError(t, (<-result).err)
	})
}

// A circle that is gone at the second look was not a deadlock.
func TestAWaitThatBeginsAnewIsAnotherOne(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		ann := s.player("ann", Options{Policy: Report})
		ann.has("a", nil)
		onlooker := s.player("bob", Options{})
		b := onlooker.has("b", nil)
		var n atomic.Int64
		s.provider.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Inspect && call.Name == "b" { // bob publishes a new wait before each look
				again := edge{Name: "a", Since: time.Now(), Wait: fmt.Sprint(n.Add(1))}
				require.NoError(t, b.SetMetadata(context.WithoutCancel(ctx), map[string]string{Key: again.text()}))
			}
			return apply()
		})
		ctx, cancel := context.WithCancel(s.Context())
		result := ann.wants(ctx, "b", nil)
		time.Sleep(5 * every)
		require.Greater(t, n.Load(), int64(5))
		require.Empty(t, ann.circles())
		cancel()
		<-result
	})
}

// A backend that is down delays a cancelled wait by two seconds, and no more.
func TestACancelledWaitEndsSoonAlsoIfTheBackendHangs(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		ann, bob := s.player("ann", Options{}), s.player("bob", Options{})
		ann.has("a", nil)
		bob.has("b", nil)
		ctx, cancel := context.WithCancel(s.Context())
		result := ann.wants(ctx, "b", nil)
		time.Sleep(after + time.Millisecond)
		s.provider.Use(leasingtest.Delay(leasingtest.Renew, leasingtest.Always, time.Hour))
		began := time.Now()
		cancel()
		require.ErrorIs(t, (<-result).err, context.Canceled)
		require.LessOrEqual(t, time.Since(began), takeBackBound+time.Second)
		s.provider.Use(nil)
	})
}

func TestWhatCanNotWorkIsRefused(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		ann, bob := s.player("ann", Options{}), s.player("bob", Options{})
		for _, options := range []Options{{Policy: "kill"}, {After: -1}, {Every: -time.Second}} {
			_, err := New(ann.manager, options)
			require.ErrorIs(t, err, leasing.ErrInvalid, "%+v", options)
		}
		_, err := New(nil, Options{})
		require.ErrorIs(t, err, leasing.ErrInvalid)

		theirs := bob.has("b", nil)
		result := ann.wants(s.Context(), "b", nil)
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

// Foreign texts under our key are not waits.
func TestForeignMetadataAreNoWait(t *testing.T) {
	for _, text := range []string{"", "x", "{}", `{"name":"a"}`, `{"name":"","wait":"1"}`, `{"name":"a","wait":7}`, "null", `["a"]`} {
		_, waits := edgeOf(leasing.Record{Metadata: map[string]string{Key: text}})
		require.False(t, waits, text)
	}
	_, waits := edgeOf(leasing.Record{Metadata: map[string]string{Key: edge{Name: "a", Since: time.Now(), Wait: "1"}.text()}})
	require.True(t, waits)
}

func TestHeldLongerThan(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		ann := s.player("ann", Options{})
		ann.has("jobs/old", nil)
		ann.has("other", nil)
		time.Sleep(time.Hour)
		ann.has("jobs/new", nil)
		records, err := HeldLongerThan(s.Context(), ann.manager, "jobs/", time.Minute)
		require.NoError(t, err)
		require.Len(t, records, 1)
		require.Equal(t, "jobs/old", records[0].Name)
	})
}

// T233: an actor that gave up its wait while it was cut off still has that wait in the metadata.
func TestTrap_T233_AWaitThatWasGivenUpWhileCutOffMakesNoCircle(t *testing.T) {
	for _, policy := range []Policy{Refuse, Report, Break} {
		onStage(t, func(t *testing.T, s *stage) {
			ann, bob := s.player("ann", Options{Policy: policy}), s.player("bob", Options{Policy: policy})
			a := ann.has("a", &leasing.AcquireOptions{TTL: time.Minute})
			b := bob.has("b", nil)
			ctx, giveUp := context.WithCancel(s.Context())
			anns := ann.wants(ctx, "b", nil)
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
			bobs := bob.wants(s.Context(), "a", nil)
			time.Sleep(after + 5*every)
			pending(t, bobs)
			require.Empty(t, bob.circles())
			require.NoError(t, b.Err())
			heal()
			require.NoError(t, a.Release(s.Context()))
			require.NoError(t, (<-bobs).err)
		})
	}
}

func TestACircleIsFoundWhenAnActorIsBack(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		ann, bob := s.player("ann", Options{}), s.player("bob", Options{})
		ann.has("a", &leasing.AcquireOptions{TTL: time.Minute})
		bob.has("b", nil)
		anns := ann.wants(s.Context(), "b", nil)
		time.Sleep(after + every)
		heal := s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Name == "a" && call.Op == leasingtest.Renew {
				return leasing.ErrUnavailable
			}
			return apply()
		})
		bobs := bob.wants(s.Context(), "a", nil)
		time.Sleep(after + 3*every)
		pending(t, bobs)
		heal()
		got := <-bobs
		require.ErrorAs(t, got.err, new(*Error))
		for _, lease := range bob.leases() {
			require.NoError(t, lease.Release(s.Context()))
		}
		require.NoError(t, (<-anns).err)
	})
}
