package semaphore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestAWaiterGetsWhatAnotherProcessReleases(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a, b := s.process("a", Options{Permits: 3}), s.process("b", Options{Permits: 3})
		permits := s.takeAll(a, 3)
		w := s.acquireAsync(t.Context(), b)
		time.Sleep(10 * ttl)
		require.False(t, w.isOver())
		release(t, permits[1])
		require.True(t, w.isOver(), "at once: all slots are waited for")
		require.Equal(t, permits[1].Slot(), s.receive(w).Slot())
		require.Equal(t, 3, s.held())
	})
}

func TestWaitersOfAProcessAreServedInTheirOrder(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a, b := s.process("a", Options{Permits: 2}), s.process("b", Options{Permits: 2})
		theirs := s.takeAll(b, 2)
		var waits []*wait
		for range 6 {
			waits = append(waits, s.acquireAsync(t.Context(), a))
		}
		held := theirs // the first two come from another process, the others from this one
		for i, w := range waits {
			require.False(t, w.isOver())
			release(t, held[i])
			require.True(t, w.isOver())
			for _, later := range waits[i+1:] {
				require.False(t, later.isOver())
			}
			held = append(held, s.receive(w))
		}
		release(t, held[6:]...)
		idle(t, a)
	})
}

// The test makes one hand-over at a time, so that the order is visible.
func TestHandOversWithinAProcessKeepTheOrderAndCostOneRequestEach(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 1})
		permit := s.take(a)
		var waits []*wait
		for range 20 {
			waits = append(waits, s.acquireAsync(t.Context(), a))
		}
		time.Sleep(5 * time.Minute)
		before := s.asked()
		require.Equal(t, 1, before, "nobody asks for what is our own")
		for i, w := range waits {
			release(t, permit)
			require.True(t, w.isOver(), "at once")
			for _, later := range waits[i+1:] {
				require.False(t, later.isOver())
			}
			permit = s.receive(w)
		}
		release(t, permit)
		require.Equal(t, len(waits), s.asked()-before)
		idle(t, a)
	})
}

// A waiter that leaves in the middle of a request leaves nothing behind, and the
// next waiter does not wait for the expiry of an orphaned lease.
func TestTrap_T60_ACancelledWaiterLeaksNoPermit(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 1})
		defer s.provider.Use(leasingtest.DelayReply(leasingtest.Acquire, 1, time.Second))()
		ctx, cancel := context.WithCancelCause(t.Context())
		first := s.acquireAsync(ctx, a)
		second := s.acquireAsync(t.Context(), a)
		time.Sleep(100 * time.Millisecond)
		cancel(errStop)
		require.True(t, first.isOver())
		require.ErrorIs(t, first.err, errStop)
		began := time.Now()
		permit := s.receive(second)
		require.LessOrEqual(t, time.Since(began), 3*time.Second)
		release(t, permit)
		time.Sleep(2 * ttl)
		require.Zero(t, s.held())
		idle(t, a)
	})
}

// If a request succeeds after its waiter has given up, the permit is released.
func TestTrap_T60_APermitThatComesTooLateIsGivenBack(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 1})
		defer s.provider.Use(leasingtest.DelayReply(leasingtest.Acquire, 1, time.Second))()
		ctx, cancel := context.WithCancel(t.Context())
		first := s.acquireAsync(ctx, a)
		cancel()
		require.True(t, first.isOver(), "it does not wait for the answer")
		time.Sleep(2 * time.Second)
		require.Zero(t, s.held())
		idle(t, a)
	})
}

func assertNoError(t *testing.T, err error) {
	if err != nil {
		t.Error(err)
	}
}

// If a waiter is served while it gives up, that waiter or the next gets the permit.
func TestAPermitForACancelledWaiterGoesToTheNext(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 1})
		for range 50 {
			permit := s.take(a)
			ctx, cancel := context.WithCancel(t.Context())
			first, second := s.acquireAsync(ctx, a), s.acquireAsync(t.Context(), a)
			go cancel()
			go func() { assertNoError(t, permit.Release(context.Background())) }()
			<-first.done
			if first.err == nil {
				release(t, first.permit)
			}
			release(t, s.receive(second))
		}
		idle(t, a)
	})
}

func TestTheEndOfAWaitReportsTheObstacle(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		theirs := s.process("theirs", Options{Permits: 2})
		s.takeAll(theirs, 2)
		ours := s.process("ours", Options{Permits: 2})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := ours.Acquire(ctx)
		require.Equal(t, time.Minute, time.Since(began))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, leasing.ErrHeld)
		var held *leasing.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, "theirs", held.Holder.Owner)

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = theirs.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, leasing.ErrHeld, "all are its own")
		require.ErrorContains(t, err, "none of 2 permits is free")

		s.provider.Use(leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, leasing.ErrUnavailable))
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = ours.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		require.NotErrorIs(t, err, leasing.ErrHeld, "nobody knows")

		s.provider.Use(leasingtest.Hang(leasingtest.Acquire, leasingtest.Always))
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = ours.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, leasing.ErrHeld, "nothing has answered")
	})
}

func TestTheWaitLimit(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		limited := Options{Permits: 2, Lease: leasing.AcquireOptions{WaitLimit: time.Minute}}
		theirs := s.process("theirs", limited)
		permits := s.takeAll(theirs, 2)
		ours := s.process("ours", limited)
		began := time.Now()
		_, err := ours.Acquire(t.Context())
		require.Equal(t, time.Minute, time.Since(began))
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.NotErrorIs(t, err, context.DeadlineExceeded)

		first := s.acquireAsync(t.Context(), ours)
		time.Sleep(30 * time.Second)
		second := s.acquireAsync(t.Context(), ours)
		time.Sleep(30 * time.Second)
		require.True(t, first.isOver())
		time.Sleep(29 * time.Second)
		require.False(t, second.isOver(), "each has a limit of its own")
		release(t, permits[0])
		s.receive(second)
	})
}

// A free permit is found even with a very short limit.
func TestTrap_T30_AShortWaitLimitStillAsksOnce(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 2, Lease: leasing.AcquireOptions{WaitLimit: time.Nanosecond}})
		s.provider.Use(leasingtest.Delay(leasingtest.Acquire, leasingtest.Always, 10*time.Millisecond))
		first, err := a.Acquire(t.Context())
		require.NoError(t, err)
		second, err := a.Acquire(t.Context())
		require.NoError(t, err)
		_, err = a.Acquire(t.Context())
		require.ErrorIs(t, err, leasing.ErrHeld)
		release(t, first, second)

		s.provider.Clear()
		s.provider.Use(leasingtest.Hang(leasingtest.Acquire, leasingtest.Always))
		began := time.Now()
		_, err = a.Acquire(t.Context())
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		require.LessOrEqual(t, time.Since(began), 2*limitGrace)
	})
}

// Temporary failures do not end a wait.
func TestTrap_T31_AnOutageDoesNotEndAWait(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		for _, fault := range []leasingtest.Handler{
			leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, leasing.ErrUnavailable),
			leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, errors.New("connection refused")),
			leasingtest.LoseReply(leasingtest.Acquire, leasingtest.Always, errors.New("connection reset")),
			leasingtest.Hang(leasingtest.Acquire, leasingtest.Always),
		} {
			a := s.process("a", Options{Permits: 5})
			over := s.provider.Use(fault)
			began := s.asked()
			w := s.acquireAsync(t.Context(), a)
			time.Sleep(5 * time.Minute)
			require.False(t, w.isOver())
			require.LessOrEqual(t, float64(s.asked()-began)/300, 15.0, "and is not hammered at")
			over()
			release(t, s.receive(w))
			require.Less(t, time.Since(w.at), 5*ttl)
			idle(t, a)
		}
	})
}

func TestErrorsThatWaitingCannotHelpEndAllWaits(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.takeAll(s.process("theirs", Options{Permits: 3}), 3)
		a := s.process("a", Options{Permits: 3})
		waits := []*wait{s.acquireAsync(t.Context(), a), s.acquireAsync(t.Context(), a), s.acquireAsync(t.Context(), a)}
		defer s.provider.Use(leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, leasing.ErrDenied))()
		for _, w := range waits {
			<-w.done
			require.ErrorIs(t, w.err, leasing.ErrDenied)
		}
		began := time.Now()
		w := s.acquireAsync(t.Context(), a)
		<-w.done
		require.ErrorIs(t, w.err, leasing.ErrDenied)
		require.GreaterOrEqual(t, time.Since(began), time.Minute, "Options.RefusalTimeout: the refusal might pass")
		idle(t, a)
	})
}

// TryAcquire does not overtake waiters that have found no free slot. While their first requests are
// still in flight, it may acquire a free slot.
func TestTryAcquireAndWaiters(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		const permits = 10
		a := s.process("a", Options{Permits: permits})
		b := s.process("b", Options{Permits: permits})
		theirs := s.takeAll(b, permits)
		w := s.acquireAsync(t.Context(), a)
		before := s.asked()
		_, err := a.TryAcquire(t.Context())
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.Equal(t, before, s.asked(), "it does not even ask")
		release(t, theirs...)
		release(t, s.receive(w))

		s.provider.Use(leasingtest.Delay(leasingtest.Acquire, 1, time.Second))
		w = s.acquireAsync(t.Context(), a)
		release(t, s.take(a))
		release(t, s.receive(w))
		idle(t, a)
	})
}

// A slot that TryAcquire could not get goes to a waiter when it becomes free.
func TestAWaiterGetsASlotThatTryAcquireWasRefused(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		theirs := s.take(s.process("theirs", Options{Permits: 1}))
		a := s.process("a", Options{Permits: 1})
		s.provider.Use(leasingtest.Delay(leasingtest.Acquire, 1, time.Second))
		tried := make(chan error, 1)
		go func() { _, err := a.TryAcquire(t.Context()); tried <- err }()
		synctest.Wait()
		w := s.acquireAsync(t.Context(), a)
		require.ErrorIs(t, <-tried, leasing.ErrHeld)
		time.Sleep(time.Minute)
		release(t, theirs)
		require.True(t, w.isOver())
		release(t, s.receive(w))
		idle(t, a)
	})
}

func TestAWaiterGetsFullAfterTryAcquireGotTheLastOne(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 1, Lease: leasing.AcquireOptions{WaitLimit: 5 * time.Second}})
		s.provider.Use(leasingtest.Delay(leasingtest.Acquire, 1, time.Second))
		tried := make(chan *Permit, 1)
		go func() {
			permit, err := a.TryAcquire(t.Context())
			assertNoError(t, err)
			tried <- permit
		}()
		synctest.Wait()
		began := time.Now()
		_, err := a.Acquire(t.Context())
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.Equal(t, 5*time.Second, time.Since(began))
		release(t, <-tried)
		idle(t, a)
	})
}

// A request of a waiter that has left does not make a free slot seem taken.
func TestTheRequestOfAnEarlierWaiterIsNoAnswerForTheNext(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 1, Lease: leasing.AcquireOptions{WaitLimit: time.Nanosecond}})
		defer s.provider.Use(leasingtest.Delay(leasingtest.Acquire, 1, time.Second))()
		ctx, cancel := context.WithCancel(t.Context())
		w := s.acquireAsync(ctx, a)
		cancel()
		<-w.done
		permit, err := a.Acquire(t.Context())
		require.NoError(t, err)
		release(t, permit)
	})
}

func TestManyAtOnce(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		const permits = 5
		var inside, most int
		var mu sync.Mutex
		var all sync.WaitGroup
		processes := []*Semaphore{s.process("a", Options{Permits: permits}), s.process("b", Options{Permits: permits}), s.process("c", Options{Permits: permits})}
		for i := range 300 {
			all.Go(func() {
				assertNoError(t, processes[i%3].Do(t.Context(), func(context.Context, *Permit) error {
					mu.Lock()
					inside++
					most = max(most, inside)
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					inside--
					mu.Unlock()
					return nil
				}))
			})
		}
		began := time.Now()
		all.Wait()
		require.Equal(t, permits, most)
		require.LessOrEqual(t, time.Since(began), 120*time.Second, "it takes 60 s at best")
		synctest.Wait()
		for _, process := range processes {
			idle(t, process)
		}
		require.Zero(t, s.held())
	})
}
