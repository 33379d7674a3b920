package multilease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
)

var errStop = errors.New("shutting down")

func TestNamesAreAcquiredInOneOrderAndReleasedInReverse(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		set := s.acquire("b", "a", "ä", "B", "a")
		require.Equal(t, []string{"B", "a", "b", "ä"}, s.calls(leasingtest.Acquire))
		require.NoError(t, set.Release(t.Context()))
		require.Equal(t, []string{"ä", "b", "a", "B"}, s.calls(leasingtest.Release))
	})
}

// A failed acquire releases its leases in reverse order, whatever the cause.
func TestTrap_T41_AFailedAcquireKeepsNothing(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.acquireOther("c")
		_, err := TryAcquire(t.Context(), s.ours, []string{"a", "b", "c", "d"})
		var held *leasing.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, "them", held.Holder.Owner)
		require.Equal(t, []string{"-", "-", "them", "-"}, s.holders("a", "b", "c", "d"))
		require.Equal(t, []string{"b", "a"}, s.calls(leasingtest.Release))
		require.NotContains(t, s.calls(leasingtest.Acquire), "d")
	})
}

// The releases must be sent although the context of the acquire has ended.
func TestTrap_T41_ACancelledAcquireKeepsNothing(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.acquireOther("b")
		ctx, cancel := context.WithCancelCause(t.Context())
		result := s.acquireAsync(ctx, nil, "a", "b")
		require.Equal(t, []string{"ours", "them"}, s.holders("a", "b"))
		cancel(errStop)
		err := receive(t, result)
		require.ErrorIs(t, err, errStop)
		require.ErrorIs(t, err, leasing.ErrHeld, "and what stood in the way")
		require.Equal(t, []string{"-", "them"}, s.holders("a", "b"))
	})
}

func TestTrap_T41_EarlyLeasesAreRenewedWhileLaterOnesAreWaitedFor(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		b := s.acquireOther("b")
		done := make(chan *Set)
		go func() { done <- s.acquire("a", "b", "c") }()
		time.Sleep(20 * ttl)
		require.Equal(t, []string{"ours", "them", "-"}, s.holders("a", "b", "c"))
		require.NoError(t, b.Release(t.Context()))
		set := <-done
		require.NoError(t, set.Err())
		require.Greater(t, set.Lease("a").Renewals(), 20)
		require.Equal(t, []string{"ours", "ours", "ours"}, s.holders("a", "b", "c"))
	})
}

// The wait ends when the set can no longer be complete.
func TestTrap_T41_ALeaseLostWhileOthersAreWaitedForFailsTheAcquire(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.acquireOther("c")
		result := s.acquireAsync(t.Context(), nil, "a", "b", "c")
		_, err := s.other.Break(t.Context(), "a", leasing.BreakOptions{Immediate: true})
		require.NoError(t, err)
		err = receive(t, result)
		var member *MemberError
		require.ErrorAs(t, err, &member)
		require.Equal(t, "a", member.Name)
		var lost *leasing.LostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, leasing.LostBroken, lost.Reason)
		require.Equal(t, []string{"-", "-", "them"}, s.holders("a", "b", "c"))
	})
}

// The application's TTLPolicy runs inside an acquire, and may panic. A caller that recovers from
// the panic has no set to release.
func TestTrap_T98_AnAcquireThatPanicsKeepsWhatItHad(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.ours = leasingtest.NewManagerOn(t, s.provider, leasing.Options{Owner: "ours", TTL: ttl, TTLPolicy: func(r leasing.TTLRequest) time.Duration {
			if r.Name == "b" {
				panic("no such class")
			}
			return r.TTL
		}})
		require.PanicsWithValue(t, "no such class", func() { _, _ = Acquire(t.Context(), s.ours, []string{"a", "b"}) })
		require.Equal(t, []string{"-", "-"}, s.holders("a", "b"))
	})
}

// The last acquire may succeed at the moment at which an early lease is lost.
func TestTrap_T41_ALeaseLostWithTheLastStepFailsTheAcquire(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a, err := s.ours.TryAcquire(t.Context(), "a")
		require.NoError(t, err)
		set := newSet(t.Context())
		set.add(a)
		s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			err := apply()
			if call.Op == leasingtest.Acquire {
				leasingtest.Lose(t, s.provider, a, leasing.LostTaken)
			}
			return err
		})
		err = set.acquireAll(t.Context(), s.ours, []string{"b"}, false)
		require.ErrorIs(t, err, leasing.ErrLost)
		require.ErrorIs(t, recipe.Join(append([]error{err}, set.release(t.Context())...)...), leasing.ErrLost)
		synctest.Wait()
		require.Equal(t, []string{"-", "-"}, s.holders("a", "b"))
	})
}

// With a manager that does not renew leases, the acquire fails instead of returning a set with a lost
// lease.
func TestTrap_T41_AManagerWithoutRenewalFailsTheAcquire(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.ours = leasingtest.NewManagerOn(t, s.provider, leasing.Options{TTL: ttl, NoAutoRenew: true})
		s.acquireOther("b")
		result := s.acquireAsync(t.Context(), nil, "a", "b")
		began := time.Now()
		require.ErrorIs(t, receive(t, result), leasing.ErrLost)
		require.LessOrEqual(t, time.Since(began), ttl)
	})
}

func TestTheWaitLimitIsOneForAllNames(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.acquireOther("a")
		s.acquireOther("b")
		began := time.Now()
		result := s.acquireAsync(t.Context(), &leasing.AcquireOptions{WaitLimit: 20 * time.Second}, "a", "b")
		time.Sleep(15 * time.Second)
		require.NoError(t, a.Release(t.Context()))
		require.ErrorIs(t, receive(t, result), leasing.ErrHeld)
		require.InDelta(t, 20, time.Since(began).Seconds(), 0.5)
	})
}

func TestAUsedUpWaitLimitStillTakesWhatIsFree(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.provider.Use(leasingtest.Delay(leasingtest.Acquire, 1, 2*time.Second))
		set, err := Acquire(t.Context(), s.ours.With(leasing.AcquireOptions{WaitLimit: 2 * time.Second}), []string{"a", "b"})
		require.NoError(t, err)
		require.NoError(t, set.Release(t.Context()))

		s.provider.Use(leasingtest.Delay(leasingtest.Acquire, 1, 2*time.Second))
		s.acquireOther("b")
		began := time.Now()
		_, err = Acquire(t.Context(), s.ours.With(leasing.AcquireOptions{WaitLimit: time.Second}), []string{"a", "b"})
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.LessOrEqual(t, time.Since(began), 2*time.Second, "and what is held is not waited for")
	})
}

func TestTryAsksForEachNameOnce(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		b, began := s.acquireOther("b"), time.Now()
		err := TryDo(t.Context(), s.ours, []string{"a", "b"}, func(context.Context, *Set) error { panic("not reached") })
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.Zero(t, time.Since(began))
		require.Equal(t, []string{"-", "them"}, s.holders("a", "b"))
		require.NoError(t, b.Release(t.Context()))
		require.NoError(t, TryDo(t.Context(), s.ours, []string{"a", "b"}, func(context.Context, *Set) error {
			require.Equal(t, []string{"ours", "ours"}, s.holders("a", "b"))
			return nil
		}))
		require.Equal(t, []string{"-", "-"}, s.holders("a", "b"))
	})
}

func TestTheDeadlineIsOneForAllNames(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.acquireOther("a")
		s.acquireOther("b")
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		result := s.acquireAsync(ctx, nil, "a", "b")
		time.Sleep(15 * time.Second)
		require.NoError(t, a.Release(t.Context()))
		require.ErrorIs(t, receive(t, result), context.DeadlineExceeded)
		require.InDelta(t, 20, time.Since(began).Seconds(), 0.1)
	})
}

func TestTheErrorOfAFailedAcquireReportsFailedReleases(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		refused := errors.New("connection refused")
		s.provider.Use(leasingtest.Fail(leasingtest.Release, leasingtest.Always, refused))
		s.acquireOther("b")
		began := time.Now()
		_, err := TryAcquire(t.Context(), s.ours, []string{"a", "b"})
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.ErrorIs(t, err, refused)
		require.LessOrEqual(t, time.Since(began), cleanUpBound+2*time.Second)
	})
}

func TestWhatCannotWorkIsRefusedBeforeAnythingIsSent(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		for field, call := range map[string]func() error{
			"names []": func() error { return s.try() },
			"names[1]": func() error { return s.try("a", "") },
			"names[2]": func() error { return s.try("a", "b", "c\n") },
			"AcquireOptions.NoAutoRenew": func() error {
				_, err := Acquire(t.Context(), s.ours.With(leasing.AcquireOptions{NoAutoRenew: true}), []string{"a"})
				return err
			},
			"manager": func() error { _, err := Acquire(t.Context(), nil, []string{"a"}); return err },
			"fn":      func() error { return Do(t.Context(), s.ours, []string{"a"}, nil) },
		} {
			err := call()
			require.ErrorIs(t, err, leasing.ErrInvalid, field)
			require.ErrorContains(t, err, field)
		}
		require.Empty(t, s.provider.Calls())
	})
}

func (s *fixture) try(names ...string) error {
	_, err := Acquire(s.t.Context(), s.ours, names)
	return err
}

// Whatever the order of the names, no waits form a cycle, and no name has two holders.
func TestOverlappingSetsNeitherDeadlockNorOverlap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := []string{"a", "b", "c", "d"}
		wants := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom(names), 1, 4), 2, 6).Draw(rt, "wants")
		withFixture(t, func(t *testing.T, s *fixture) {
			inside := map[string]*atomic.Int32{}
			for _, name := range names {
				inside[name] = new(atomic.Int32)
			}
			work := func(_ context.Context, set *Set) error {
				for _, lease := range set.Leases() {
					if inside[lease.Name()].Add(1) != 1 {
						return fmt.Errorf("two holders of %q", lease.Name())
					}
					defer inside[lease.Name()].Add(-1)
				}
				time.Sleep(rand.N(2 * ttl))
				return set.Err()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			var wg sync.WaitGroup
			for i, want := range wants {
				manager := []*leasing.Manager{s.ours, s.other}[i%2]
				wg.Go(func() {
					if err := Do(ctx, manager, want, work); err != nil {
						t.Errorf("%v: %v", want, err)
					}
				})
			}
			wg.Wait()
			synctest.Wait()
		})
	})
}
