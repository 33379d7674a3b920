package semaphore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// A hundred waiters cost no more than a single waiter.
func TestTheCostOfWaiting(t *testing.T) {
	for _, c := range []struct {
		permits, waiters int
		push             bool
		most             float64 // requests a second
	}{
		{permits: 1, waiters: 1, push: true, most: 0.2},
		{permits: 4, waiters: 1, push: true, most: 0.8},
		{permits: 4, waiters: 100, push: true, most: 0.8},
		{permits: 4, waiters: 100, push: false, most: 5.8},
		{permits: 100, waiters: 1, push: true, most: 4.2},
		{permits: 100, waiters: 100, push: true, most: 4.2},
		{permits: 1000, waiters: 100, push: true, most: 25},
		{permits: 1000, waiters: 100, push: false, most: 30},
	} {
		t.Run(fmt.Sprintf("%d permits, %d waiters, push %v", c.permits, c.waiters, c.push), func(t *testing.T) {
			withFixture(t, func(t *testing.T, s *fixture) {
				s.takeAll(s.process("theirs", Options{Permits: c.permits}), c.permits)
				var provider leasing.Provider = s.provider
				if !c.push {
					provider = withoutPush{s.provider}
				}
				ours, err := New(leasingtest.NewManagerOn(t, provider, leasing.Options{}), Options{Name: name, Permits: c.permits})
				require.NoError(t, err)
				before := s.asked()
				ctx, cancel := context.WithCancelCause(t.Context())
				var waits []*wait
				for range c.waiters {
					waits = append(waits, s.acquireAsync(ctx, ours))
				}
				require.LessOrEqual(t, s.asked()-before, min(firstProbes, c.permits)+3*min(4, c.permits), "the first look; registering for a wake-up takes three requests")
				time.Sleep(10 * time.Second)
				before = s.asked()
				time.Sleep(4 * time.Minute)
				require.LessOrEqual(t, float64(s.asked()-before)/240, c.most)
				cancel(errStop)
				for _, w := range waits {
					require.True(t, w.isOver())
					require.ErrorIs(t, w.err, errStop)
					require.ErrorIs(t, w.err, leasing.ErrHeld)
				}
				before = s.asked()
				time.Sleep(time.Minute)
				require.Equal(t, before, s.asked(), "nothing goes on when nobody waits")
				idle(t, ours)
			})
		})
	}
}

// A free slot is found within a sweep even if no request was waiting for that slot.
func TestEverySlotIsAskedForWithinASweep(t *testing.T) {
	for _, permits := range []int{5, 60, 1000} {
		t.Run(fmt.Sprint(permits), func(t *testing.T) {
			withFixture(t, func(t *testing.T, s *fixture) {
				theirs := s.takeAll(s.process("theirs", Options{Permits: permits}), permits)
				ours := s.process("ours", Options{Permits: permits})
				ours.watchedSlots = 1
				w := s.acquireAsync(t.Context(), ours)
				time.Sleep(3 * time.Minute)
				require.False(t, w.isOver())
				began := time.Now()
				unwatched := theirs[:0]
				for _, permit := range theirs {
					if !s.watched(ours, permit.Slot()) {
						unwatched = append(unwatched, permit)
					}
				}
				release(t, unwatched[len(unwatched)/2])
				permit := s.receive(w)
				require.Equal(t, unwatched[len(unwatched)/2].Slot(), permit.Slot())
				require.LessOrEqual(t, time.Since(began), time.Minute+time.Second)
			})
		})
	}
}

// watched reports whether the slot is held, or a request for the slot is in flight.
func (s *fixture) watched(by *Semaphore, slot int) bool {
	by.mu.Lock()
	defer by.mu.Unlock()
	return !slices.Contains(by.free, slot)
}

// No process waits for the same slots forever: these may never be released, while others are
// released often.
func TestWhichSlotsAreWaitedForChanges(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		const permits = 12
		s.takeAll(s.process("theirs", Options{Permits: permits}), permits)
		ours := s.process("ours", Options{Permits: permits})
		ours.watchedSlots = 1
		w := s.acquireAsync(t.Context(), ours)
		time.Sleep(time.Hour)
		waited := map[string]bool{}
		for _, call := range s.provider.Calls() {
			if call.Op == leasingtest.Wait {
				waited[call.Name] = true
			}
		}
		require.Greater(t, len(waited), permits/2)
		require.False(t, w.isOver())
		s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Acquire {
				return leasing.ErrDenied
			}
			return apply()
		})
		<-w.done
		require.ErrorIs(t, w.err, leasing.ErrDenied, "waiting can't help")
	})
}

// If many permits become free together, all of them are found soon, not one per pause.
func TestManyFreeSlotsAreFoundSoon(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		const permits = 200
		theirs := s.takeAll(s.process("theirs", Options{Permits: permits}), permits)
		ours := s.process("ours", Options{Permits: permits})
		var waits []*wait
		for range 100 {
			waits = append(waits, s.acquireAsync(t.Context(), ours))
		}
		time.Sleep(time.Minute)
		began := time.Now()
		release(t, theirs...)
		for _, w := range waits {
			s.receive(w)
		}
		require.LessOrEqual(t, time.Since(began), 2*time.Second)
	})
}

// A process that always has waiters of its own, and hands its slots over among them, does not keep
// the slots forever.
func TestABusyProcessLetsOthersIn(t *testing.T) {
	for _, push := range []bool{true, false} {
		t.Run(fmt.Sprintf("push %v", push), func(t *testing.T) {
			withFixture(t, func(t *testing.T, s *fixture) {
				const permits = 6
				busy := s.process("busy", Options{Permits: permits})
				ctx, stop := context.WithCancel(t.Context())
				var crowd sync.WaitGroup
				var cycles int
				var mu sync.Mutex
				for range 3 * permits {
					crowd.Go(func() {
						for ctx.Err() == nil {
							_ = busy.Do(ctx, func(context.Context, *Permit) error {
								time.Sleep(100 * time.Millisecond)
								mu.Lock()
								cycles++
								mu.Unlock()
								return nil
							})
						}
					})
				}
				time.Sleep(time.Minute)
				var provider leasing.Provider = s.provider
				if !push {
					provider = withoutPush{s.provider}
				}
				other, err := New(leasingtest.NewManagerOn(t, provider, leasing.Options{}), Options{Name: name, Permits: permits})
				require.NoError(t, err)
				for range 5 {
					began := time.Now()
					permit := s.receive(s.acquireAsync(t.Context(), other))
					require.LessOrEqual(t, time.Since(began), 2*(maxHandOverTime+yieldFor))
					release(t, permit)
				}
				mu.Lock()
				cycles = 0
				mu.Unlock()
				time.Sleep(time.Minute)
				mu.Lock()
				share := float64(cycles) / (permits * 10 * 60)
				mu.Unlock()
				require.GreaterOrEqual(t, share, 0.9, "and loses little by it")
				stop()
				crowd.Wait()
				idle(t, busy)
			})
		})
	}
}

// A process waits for several slots at a time, and may get all of them at once. It releases those
// that it does not need.
func TestTrap_T41_SurplusPermitsAreGivenBack(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		const permits = 4
		theirs := s.takeAll(s.process("theirs", Options{Permits: permits}), permits)
		ours := s.process("ours", Options{Permits: permits})
		w := s.acquireAsync(t.Context(), ours)
		// All four answers come late, so that the first can't stop the others.
		defer s.provider.Use(leasingtest.DelayReply(leasingtest.Acquire, leasingtest.Always, 100*time.Millisecond))()
		var all sync.WaitGroup
		for _, permit := range theirs {
			all.Go(func() { assertNoError(t, permit.Release(t.Context())) })
		}
		all.Wait()
		s.receive(w)
		time.Sleep(time.Second)
		require.Equal(t, 1, s.held())
		release(t, w.permit)
		idle(t, ours)
	})
}

// The pause that a throttling backend asks for is respected.
func TestAThrottledSearchSlowsDown(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 100})
		defer s.provider.Use(leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, &leasing.ThrottledError{RetryAfter: 20 * time.Second}))()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.acquireAsync(ctx, a)
		require.LessOrEqual(t, s.asked(), 1+4, "one refusal ends the first look")
		time.Sleep(10 * time.Second)
		before := s.asked()
		time.Sleep(10 * time.Minute)
		require.LessOrEqual(t, s.asked()-before, 31*(1+4))
		cancel()
	})
}

// The search for several simultaneous waiters sends its probes in parallel.
func TestASlowBackendIsAskedForManyAtATime(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 20})
		var under, most int
		var mu sync.Mutex
		s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op != leasingtest.Acquire {
				return apply()
			}
			mu.Lock()
			under++
			most = max(most, under)
			mu.Unlock()
			time.Sleep(time.Second - time.Duration(call.N)*time.Millisecond)
			mu.Lock()
			under--
			mu.Unlock()
			return apply()
		})
		began := time.Now()
		var waits []*wait
		for range 16 {
			waits = append(waits, s.acquireAsync(t.Context(), a))
		}
		for _, w := range waits {
			s.receive(w)
		}
		require.LessOrEqual(t, time.Since(began), 2*time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, maxProbes, most, "but not for all at a time")
	})
}

// Requests carry the values of the waiter's context, so that a trace shows the waiter.
func TestRequestsCarryTheValuesOfThoseTheyAreMadeFor(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		type key struct{}
		var seen []any
		s.provider.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Acquire {
				seen = append(seen, ctx.Value(key{}))
			}
			return apply()
		})
		a := s.process("a", Options{Permits: 1})
		first := s.receive(s.acquireAsync(context.WithValue(t.Context(), key{}, 1), a))
		second := s.acquireAsync(context.WithValue(t.Context(), key{}, 2), a)
		release(t, first)
		release(t, s.receive(second))
		require.Equal(t, []any{1, 2}, seen)
	})
}

// A lease that arrives after the last waiter has gone is released.
func TestTrap_T41_ALeaseThatNobodyWaitsForIsReleased(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 1})
		come := func() {
			slot, err := a.beginTry(nil)
			require.NoError(t, err)
			lease, err := a.manager.With(a.lease).TryAcquire(t.Context(), a.options.slotName(slot))
			require.NoError(t, err)
			a.mu.Lock()
			defer a.mu.Unlock()
			a.held++
			a.deliver(answer{slot: slot, lease: lease})
		}
		come()
		idle(t, a)
		require.Zero(t, s.held())
	})
}
