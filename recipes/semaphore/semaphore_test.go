package semaphore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	"github.com/distributedleasing/leasing/fencing"
)

func TestThereAreAsManyPermitsAsSaid(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a, b := s.process("a", Options{Permits: 3}), s.process("b", Options{Permits: 3})
		first, second, third := s.take(a), s.take(b), s.take(a)
		slots := map[int]bool{}
		for _, permit := range []*Permit{first, second, third} {
			slots[permit.Slot()] = true
			require.Equal(t, fmt.Sprintf("%s/slot/%d", name, permit.Slot()), permit.Name())
			require.NoError(t, permit.Err())
		}
		require.Equal(t, map[int]bool{0: true, 1: true, 2: true}, slots)

		_, err := a.TryAcquire(t.Context())
		var full *FullError
		require.ErrorAs(t, err, &full)
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.Equal(t, 3, full.Permits)
		var held *leasing.HeldError
		require.ErrorAs(t, err, &held, "it describes the holder in another process")
		require.Equal(t, "b", held.Holder.Owner)

		release(t, second)
		again := s.take(b)
		require.Equal(t, second.Slot(), again.Slot())
		require.Greater(t, again.Token(), second.Token())
	})
}

// The application's TTLPolicy runs in a request, and may panic. The requested slot is not lost.
func TestTrap_T98_ATryThatPanicsLosesNoSlot(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		panics := true
		m := leasingtest.NewManagerOn(t, s.provider, leasing.Options{TTL: ttl, TTLPolicy: func(r leasing.TTLRequest) time.Duration {
			if panics {
				panic("no such class")
			}
			return r.TTL
		}})
		a, err := New(m, Options{Name: name, Permits: 1})
		require.NoError(t, err)
		require.PanicsWithValue(t, "no such class", func() { _, _ = a.TryAcquire(t.Context()) })
		panics = false
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		permit, err := a.Acquire(ctx)
		require.NoError(t, err)
		release(t, permit)
	})
}

func TestAPermitIsRenewedUntilItIsReleased(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 1})
		permit := s.take(a)
		time.Sleep(20 * ttl)
		require.NoError(t, permit.Err())
		require.Greater(t, permit.Renewals(), 20)
		release(t, permit)
		require.ErrorIs(t, permit.Err(), leasing.ErrReleased)
		require.ErrorIs(t, context.Cause(permit.Context()), leasing.ErrReleased)
		require.NoError(t, permit.Release(t.Context()), "again")
		require.Equal(t, 1, s.provider.Count(leasingtest.Release))
		idle(t, a)
	})
}

func TestALostPermitEndsItsContextAndIsAvailableAgain(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 1})
		lost := s.take(a)
		next := s.acquireAsync(t.Context(), a)
		require.False(t, next.isOver())
		leasingtest.Lose(t, s.provider, lost, leasing.LostBroken)
		<-lost.Done()
		var why *leasing.LostError
		require.ErrorAs(t, context.Cause(lost.Context()), &why)
		require.Equal(t, leasing.LostBroken, why.Reason)
		require.ErrorIs(t, lost.Err(), leasing.ErrLost)

		permit := s.receive(next)
		require.Greater(t, permit.Token(), lost.Token())
		require.ErrorIs(t, lost.Release(t.Context()), leasing.ErrLost)
		require.NoError(t, permit.Err(), "the late release of a lost permit is not its successor's")
		_, err := a.TryAcquire(t.Context())
		require.ErrorIs(t, err, leasing.ErrHeld)
		release(t, permit)
		idle(t, a)
	})
}

// The permit of a holder that has crashed stays taken until the TTL has passed.
func TestThePermitOfACrashedHolderComesBackAfterItsTTL(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		_, err := s.provider.Acquire(t.Context(), abstractions.AcquireRequest{Name: name + "/slot/0", ID: abstractions.NewID(), Owner: "crashed", TTL: ttl})
		require.NoError(t, err)
		crashed := time.Now()
		permit := s.receive(s.acquireAsync(t.Context(), s.process("a", Options{Permits: 1})))
		require.InDelta(t, ttl.Seconds(), time.Since(crashed).Seconds(), 0.1)
		release(t, permit)
	})
}

func TestAPermitOutlivesTheContextOfItsAcquireAndKeepsItsValues(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		type key struct{}
		a := s.process("a", Options{Permits: 1})
		for _, acquire := range []func(context.Context) (*Permit, error){a.TryAcquire, a.Acquire} {
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Second)
			permit, err := acquire(ctx)
			require.NoError(t, err)
			cancel()
			time.Sleep(ttl)
			require.NoError(t, permit.Err())
			require.Equal(t, "value", permit.Context().Value(key{}))
			require.NoError(t, context.Cause(permit.Context()))
			_, limited := permit.Context().Deadline()
			require.False(t, limited)
			child, stop := context.WithCancel(permit.Context())
			release(t, permit)
			require.ErrorIs(t, context.Cause(child), leasing.ErrReleased, "at once: no goroutine stands in between")
			stop()
		}
	})
}

func TestDoReleasesWhenTheFunctionHasReturned(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 1})
		boom := errors.New("boom")
		ctx, cancel := context.WithCancelCause(t.Context())
		err := a.Do(ctx, func(ctx context.Context, permit *Permit) error {
			require.NoError(t, permit.Err())
			cancel(errStop)
			<-ctx.Done()
			require.Equal(t, errStop, context.Cause(ctx))
			time.Sleep(5 * ttl) // cleaning up
			require.Equal(t, 1, s.held())
			require.NoError(t, permit.Err())
			return boom
		})
		require.Equal(t, boom, err)
		require.Zero(t, s.held())

		require.PanicsWithValue(t, "boom", func() {
			_ = a.Do(t.Context(), func(context.Context, *Permit) error { panic("boom") })
		})
		require.Zero(t, s.held())
		idle(t, a)
	})
}

// A release before the work has stopped would admit another holder beside that work.
func TestTrap_T35_ReleaseInsideDoOnlyEndsTheWork(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 1})
		err := a.Do(t.Context(), func(ctx context.Context, permit *Permit) error {
			require.NoError(t, permit.Release(ctx))
			require.Equal(t, leasing.ErrReleased, context.Cause(ctx))
			require.Equal(t, leasing.ErrReleased, permit.Err())
			time.Sleep(5 * ttl)
			require.Equal(t, 1, s.held())
			return nil
		})
		require.NoError(t, err)
		require.Zero(t, s.held())
	})
}

func TestDoReportsALossAlthoughTheWorkSucceeded(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 1})
		lose := func(answer func(ctx context.Context) error) error {
			return a.Do(t.Context(), func(ctx context.Context, permit *Permit) error {
				leasingtest.Lose(t, s.provider, permit, leasing.LostTaken)
				<-ctx.Done()
				return answer(ctx)
			})
		}
		require.ErrorIs(t, lose(func(context.Context) error { return nil }), leasing.ErrLost)
		require.EqualError(t, lose(context.Cause), "lease lost: taken", "reported once")
		boom := errors.New("boom")
		err := lose(func(context.Context) error { return boom })
		require.ErrorIs(t, err, boom)
		require.ErrorIs(t, err, leasing.ErrLost)
		idle(t, a)
	})
}

// The release is sent although the context of the work has ended.
func TestTrap_T34_DoReleasesOnAnEndedContext(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 1})
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, a.Do(ctx, func(context.Context, *Permit) error { cancel(); return nil }))
		require.Zero(t, s.held())
	})
}

// A resource that compares tokens slot by slot admits only the latest holder of each slot.
func TestFencingBySlotRefusesAFormerHolder(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		gates := map[string]*fencing.Gate{}
		write := func(permit *Permit) error {
			if gates[permit.Name()] == nil {
				gates[permit.Name()] = new(fencing.Gate)
			}
			return gates[permit.Name()].Do(t.Context(), permit.Token(), func(context.Context) error { return nil })
		}
		a, b := s.process("a", Options{Permits: 2}), s.process("b", Options{Permits: 2})
		paused, other := s.take(a), s.take(a)
		require.NoError(t, write(paused))
		require.NoError(t, write(other))
		leasingtest.Lose(t, s.provider, paused, leasing.LostTaken)
		successor := s.take(b)
		require.Equal(t, paused.Slot(), successor.Slot())
		require.NoError(t, write(paused), "before its successor was seen no fence can refuse it")
		require.NoError(t, write(successor))
		require.ErrorIs(t, write(paused), leasing.ErrStale)
		require.NoError(t, write(other), "another slot's tokens say nothing of it")
		_ = paused.Release(t.Context())
	})
}

// During a rollout the larger number is the limit, and after its end the smaller number.
func TestProcessesThatDisagreeAboutTheNumber(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		old, young := s.process("old", Options{Permits: 5}), s.process("new", Options{Permits: 3})
		theirs := s.takeAll(old, 5)
		_, err := young.TryAcquire(t.Context())
		require.ErrorIs(t, err, leasing.ErrHeld, "never 8 at a time")
		require.Equal(t, 5, s.held())

		// Whichever slots the old process releases, the two together hold at most 5.
		release(t, theirs[:3]...)
		ours := 0
		for range 3 {
			if _, err := young.TryAcquire(t.Context()); err == nil {
				ours++
			}
		}
		require.LessOrEqual(t, s.held(), 5)
		require.Equal(t, 2+ours, s.held())

		// The old process ends; only the slots of the new process remain.
		release(t, theirs[3:]...)
		for range 3 - ours {
			permit := s.take(young)
			require.Less(t, permit.Slot(), 3)
		}
		_, err = young.TryAcquire(t.Context())
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.Equal(t, 3, s.held())
		require.NoError(t, old.manager.Close(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = young.manager.Close(ctx)
	})
}

func TestTryAcquireAsksForEachSlotOnceAndForNoMoreThanTries(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		theirs := s.process("theirs", Options{Permits: 40})
		s.takeAll(theirs, 40)
		for permits, want := range map[int]int{1: 1, 7: 7, 40: 32} {
			before := s.provider.Count(leasingtest.Acquire)
			_, err := s.process("ours", Options{Permits: permits}).TryAcquire(t.Context())
			require.ErrorIs(t, err, leasing.ErrHeld)
			calls := s.provider.Calls()
			asked := map[string]bool{}
			for _, call := range calls[len(calls)-want:] {
				asked[call.Name] = true
			}
			require.Len(t, asked, want)
			require.Equal(t, want, s.provider.Count(leasingtest.Acquire)-before)
		}
		before := s.asked()
		_, err := theirs.TryAcquire(t.Context())
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.Equal(t, before, s.asked(), "it asks for none of its own")
	})
}

func TestTryDo(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 2, Lease: leasing.AcquireOptions{WaitLimit: time.Hour}})
		permit, err := a.TryAcquire(t.Context())
		require.NoError(t, err)
		s.take(a)
		began := time.Now()
		require.ErrorIs(t, a.TryDo(t.Context(), func(context.Context, *Permit) error { panic("not reached") }), leasing.ErrHeld)
		require.Zero(t, time.Since(began))
		release(t, permit)
		ran := false
		require.NoError(t, a.TryDo(t.Context(), func(context.Context, *Permit) error { ran = true; return nil }))
		require.True(t, ran)
	})
}

func TestAnErrorOfTheBackendEndsTryAcquire(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.provider.Use(leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, leasing.ErrUnavailable))
		a := s.process("a", Options{Permits: 20})
		_, err := a.TryAcquire(t.Context())
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		require.NotErrorIs(t, err, leasing.ErrHeld)
		require.Equal(t, 1, s.provider.Count(leasingtest.Acquire))
		s.provider.Clear()
		time.Sleep(ttl)
		idle(t, a)
	})
}

func TestWhatCannotWorkIsRefusedBeforeAnythingIsSent(t *testing.T) {
	manager, provider := leasingtest.NewManager(t, leasing.Options{})
	for field, options := range map[string]Options{
		"Name":                    {Permits: 1},
		"Options.Permits 0":       {Name: name},
		"Options.Permits -1":      {Name: name, Permits: -1},
		"Options.Permits 10001":   {Name: name, Permits: MaxPermits + 1},
		"Options.Lease.WaitLimit": {Name: name, Permits: 1, Lease: leasing.AcquireOptions{WaitLimit: -2}},
		"Options.Name":            {Name: strings.Repeat("n", leasing.MaxNameBytes-7), Permits: 11},
	} {
		_, err := New(manager, options)
		require.ErrorIs(t, err, leasing.ErrInvalid)
		require.ErrorContains(t, err, field)
	}
	_, err := New(manager, Options{Name: strings.Repeat("n", leasing.MaxNameBytes-7), Permits: 10})
	require.NoError(t, err, "the longest name")
	_, err = New(nil, Options{Name: name, Permits: 1})
	require.ErrorContains(t, err, "manager")

	s, err := New(manager, Options{Name: name, Permits: 1, Lease: leasing.AcquireOptions{TTL: -1}})
	require.NoError(t, err)
	require.ErrorIs(t, s.Do(t.Context(), nil), leasing.ErrInvalid)
	for _, acquire := range []func(context.Context) (*Permit, error){s.TryAcquire, s.Acquire} {
		_, err = acquire(t.Context())
		require.ErrorIs(t, err, leasing.ErrInvalid, "what the manager judges comes back from the acquire")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errStop)
		_, err = acquire(ctx)
		require.Equal(t, errStop, err)
	}
	require.Zero(t, provider.Count(leasingtest.Acquire))
}

func TestAClosedManagerEndsEverything(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a, b := s.process("a", Options{Permits: 2}), s.process("b", Options{Permits: 2})
		other := s.take(b)
		mine := s.take(a)
		waits := []*wait{s.acquireAsync(t.Context(), a), s.acquireAsync(t.Context(), a)}
		closed := make(chan error, 1)
		go func() { closed <- a.manager.Close(t.Context()) }()
		synctest.Wait()
		for _, w := range waits {
			require.True(t, w.isOver(), "it does not wait for the holder")
			require.ErrorIs(t, w.err, leasing.ErrClosed)
		}
		require.ErrorIs(t, context.Cause(mine.Context()), leasing.ErrClosed)
		release(t, mine)
		require.NoError(t, <-closed)
		_, err := a.Acquire(t.Context())
		require.ErrorIs(t, err, leasing.ErrClosed)
		_, err = a.TryAcquire(t.Context())
		require.ErrorIs(t, err, leasing.ErrClosed)
		release(t, other)
	})
}

// If this process holds all permits, no waiter has a request in flight that the manager could end.
func TestAClosedManagerEndsWaitsForItsOwnPermits(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 1})
		mine := s.take(a)
		w := s.acquireAsync(t.Context(), a)
		closed := make(chan error, 1)
		go func() { closed <- a.manager.Close(t.Context()) }()
		synctest.Wait()
		require.True(t, w.isOver())
		require.ErrorIs(t, w.err, leasing.ErrClosed)
		_, err := a.Acquire(t.Context())
		require.ErrorIs(t, err, leasing.ErrClosed)
		release(t, mine)
		require.NoError(t, <-closed)
	})
}

// A permit that is handed to another process no longer belongs to this process.
func TestAPermitIsHandedOver(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a, b := s.process("a", Options{Permits: 1}), s.process("b", Options{Permits: 1})
		permit, err := a.Acquire(t.Context())
		require.NoError(t, err)
		handover, err := permit.HandOver(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, permit.Err(), leasing.ErrHandedOver)
		_, err = b.TryAcquire(t.Context())
		require.ErrorIs(t, err, leasing.ErrHeld)
		lease, err := b.manager.Adopt(t.Context(), handover, leasing.AdoptOptions{})
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		again, err := a.TryAcquire(t.Context())
		require.NoError(t, err, "the semaphore knows that the slot can be asked for again")
		release(t, again)
		require.NoError(t, a.Do(t.Context(), func(ctx context.Context, inside *Permit) error {
			_, err := inside.HandOver(ctx)
			require.ErrorIs(t, err, leasing.ErrInvalid)
			return ctx.Err()
		}))
	})
}
