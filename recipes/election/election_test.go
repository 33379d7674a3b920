package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	"github.com/distributedleasing/leasing/fencing"
)

var errStop = errors.New("shutting down")

func TestOneLeadsAndTheOtherTakesOver(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.start("a", Options{})
		b := s.start("b", Options{})
		require.True(t, a.IsLeader())
		require.False(t, b.IsLeader())
		first := s.record().Token

		time.Sleep(20 * ttl) // renewed all the while
		require.True(t, a.IsLeader())
		a.cancel(errStop)
		s.awaitElected(b)
		require.Equal(t, errStop, receive(t, a.result))
		require.False(t, a.IsLeader())
		require.Greater(t, s.record().Token, first)
		require.Equal(t, []string{"a elected", "a done", "b elected"}, s.notes())
	})
}

// If the lease were released before the work has stopped, or not renewed after the context is cancelled, the next leader would
// start while the first still cleans up.
func TestTrap_T35_NobodyIsElectedWhileTheLastLeaderCleansUp(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.start("a", Options{OnElected: func(ctx context.Context, _ *leasing.Lease) error {
			s.enter()
			defer s.leave()
			<-ctx.Done()
			time.Sleep(5 * ttl)
			return nil
		}})
		b := s.start("b", Options{})
		resigned := make(chan error, 1)
		go func() { resigned <- a.Resign(t.Context()) }()
		time.Sleep(5*ttl - time.Millisecond)
		require.False(t, b.IsLeader())
		require.Equal(t, "a", s.record().Owner)
		select {
		case <-resigned:
			t.Fatal("Resign returned before OnElected")
		default:
		}
		s.awaitElected(b)
		require.NoError(t, receive(t, resigned))
		require.NoError(t, receive(t, a.result))
	})
}

func TestALostLeaseEndsTheTermAndTheCandidateStandsAgain(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		causes, reasons, leases := make(chan error, 9), make(chan error, 9), make(chan *leasing.Lease, 9)
		a := s.start("a", Options{
			OnElected: func(ctx context.Context, lease *leasing.Lease) error {
				leases <- lease
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return ctx.Err()
			},
			OnResigned: func(_ *leasing.Lease, reason error) { reasons <- reason },
		})
		first := receive(t, leases)
		leasingtest.Lose(t, s.provider, first, leasing.LostBroken)
		var lost *leasing.LostError
		require.ErrorAs(t, receive(t, causes), &lost)
		require.Equal(t, leasing.LostBroken, lost.Reason)
		require.ErrorIs(t, receive(t, reasons), leasing.ErrLost)
		require.False(t, a.IsLeader())

		second := receive(t, leases)
		require.Greater(t, second.Token(), first.Token())
		require.GreaterOrEqual(t, second.AcquiredAt().Sub(first.AcquiredAt()), time.Second/2, "others get their turn")
		a.cancel(errStop)
		require.Equal(t, errStop, receive(t, a.result))
		require.Equal(t, errStop, receive(t, reasons))
	})
}

// Two leaders work at the same time only if one of them ignores the end of its context. The lease
// of that leader is then not trusted, and its writes are refused.
func TestALeaderThatIgnoresItsContextIsFenced(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		var ledger fencing.Gate
		write := func(token int64) error {
			return ledger.Do(t.Context(), token, func(context.Context) error { return nil })
		}
		terms := make(chan *leasing.Lease, 9)
		wake := make(chan struct{})
		a := s.start("a", Options{OnElected: func(_ context.Context, lease *leasing.Lease) error {
			terms <- lease
			<-wake
			return nil
		}})
		old := receive(t, terms)
		require.NoError(t, write(old.Token()))
		s.provider.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, errors.New("connection refused")))
		b := s.start("b", Options{OnElected: func(ctx context.Context, lease *leasing.Lease) error {
			require.NoError(t, write(lease.Token()))
			<-ctx.Done()
			return nil
		}})
		s.awaitElected(b)
		require.False(t, a.IsLeader(), "it still works, but leads no longer")
		require.ErrorIs(t, write(old.Token()), leasing.ErrStale)
		b.cancel(errStop)
		receive(t, b.result)
		time.Sleep(time.Minute)
		require.Empty(t, terms, "it does not stand again while it still works")
		close(wake)
		require.Greater(t, receive(t, terms).Token(), old.Token())
	})
}

func TestShutdownReleasesTheLeaseAlthoughTheContextHasEnded(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.start("a", Options{})
		a.cancel(errStop)
		require.Equal(t, errStop, receive(t, a.result))
		require.False(t, s.record().Held)
		require.Equal(t, 1, s.provider.Count(leasingtest.Release))
	})
}

func TestShutdownWhileWaiting(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.start("a", Options{})
		b := s.start("b", Options{OnResigned: func(*leasing.Lease, error) { t.Error("it was never elected") }})
		b.cancel(errStop)
		require.Equal(t, errStop, receive(t, b.result))
	})
}

func TestShutdownReportsItsErrors(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		flush, refused := errors.New("flush failed"), errors.New("connection refused")
		var reason error
		a := s.start("a", Options{
			OnElected: func(ctx context.Context, _ *leasing.Lease) error {
				<-ctx.Done()
				return flush
			},
			OnResigned: func(_ *leasing.Lease, err error) { reason = err },
		})
		s.provider.Use(leasingtest.Fail(leasingtest.Release, leasingtest.Always, refused))
		a.cancel(errStop)
		result := receive(t, a.result)
		for _, err := range []error{errStop, flush, refused} {
			require.ErrorIs(t, result, err)
			require.ErrorIs(t, reason, err)
		}
	})
}

func TestResign(t *testing.T) {
	t.Run("mid-term", func(t *testing.T) {
		withFixture(t, func(t *testing.T, s *fixture) {
			var reason error
			a := s.start("a", Options{OnResigned: func(_ *leasing.Lease, err error) { reason = err }})
			require.NoError(t, a.Resign(t.Context()))
			require.Equal(t, ErrResigned, reason)
			require.False(t, s.record().Held, "released before Resign returns")
			require.NoError(t, receive(t, a.result))
			require.NoError(t, a.Resign(t.Context()), "again")
			require.NoError(t, a.Run(t.Context()), "for good")
			require.Equal(t, []string{"a elected", "a done"}, s.notes())
		})
	})
	t.Run("while waiting", func(t *testing.T) {
		withFixture(t, func(t *testing.T, s *fixture) {
			s.start("a", Options{})
			b := s.start("b", Options{})
			require.NoError(t, b.Resign(t.Context()))
			require.NoError(t, receive(t, b.result))
		})
	})
	t.Run("between terms", func(t *testing.T) {
		withFixture(t, func(t *testing.T, s *fixture) {
			a := s.start("a", Options{Pause: time.Hour, OnElected: func(context.Context, *leasing.Lease) error { return nil }})
			require.NoError(t, a.Resign(t.Context()))
			require.NoError(t, receive(t, a.result))
		})
	})
	t.Run("by the leader itself", func(t *testing.T) {
		withFixture(t, func(t *testing.T, s *fixture) {
			var self *Candidate
			self, err := New(s.manager("a"), Options{Name: name, OnElected: func(ctx context.Context, _ *leasing.Lease) error {
				return self.Resign(ctx)
			}})
			require.NoError(t, err)
			require.NoError(t, self.Run(t.Context()))
		})
	})
	t.Run("with an impatient context", func(t *testing.T) {
		withFixture(t, func(t *testing.T, s *fixture) {
			a := s.start("a", Options{OnElected: func(ctx context.Context, _ *leasing.Lease) error {
				<-ctx.Done()
				time.Sleep(ttl)
				return nil
			}})
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errStop)
			defer cancel()
			require.Equal(t, errStop, a.Resign(ctx))
			require.NoError(t, receive(t, a.result), "the resignation goes on")
		})
	})
}

func TestAnErrorOfOnElectedEndsRun(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		boom := errors.New("boom")
		a := s.start("a", Options{OnElected: func(context.Context, *leasing.Lease) error { return boom }})
		require.Equal(t, boom, receive(t, a.result))
		require.False(t, s.record().Held)
	})
}

// If OnElected returns context.Canceled although its own context has not ended, that is an error like any other.
func TestACancelledContextOfTheWorksOwnIsAnError(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.start("a", Options{OnElected: func(context.Context, *leasing.Lease) error { return context.Canceled }})
		require.Equal(t, context.Canceled, receive(t, a.result))
	})
}

func TestAnErrorOfOnElectedIsJoinedWithTheReleaseError(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		boom, refused := errors.New("boom"), errors.New("connection refused")
		s.provider.Use(leasingtest.Fail(leasingtest.Release, leasingtest.Always, refused))
		a := s.start("a", Options{OnElected: func(context.Context, *leasing.Lease) error { return boom }})
		result := receive(t, a.result)
		require.ErrorIs(t, result, boom)
		require.ErrorIs(t, result, refused)
	})
}

func TestStandAgainBacksOffWhileTermsFail(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		boom := errors.New("boom")
		var terms []time.Time
		a := s.start("a", Options{
			StandAgain: true,
			Pause:      time.Second,
			MaxPause:   8 * time.Second,
			OnElected: func(context.Context, *leasing.Lease) error {
				terms = append(terms, time.Now())
				if len(terms) == 8 {
					time.Sleep(time.Minute)
				}
				return boom
			},
			OnResigned: func(_ *leasing.Lease, reason error) { require.Equal(t, boom, reason) },
		})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		a.cancel(errStop)
		require.Equal(t, errStop, receive(t, a.result))
		want := []time.Duration{2, 4, 8, 8, 8, 8, 8, 60 + 2, 4} // the longest gaps in seconds; the shortest are half as long
		for i, most := range want {
			gap := terms[i+1].Sub(terms[i])
			require.LessOrEqual(t, gap, most*time.Second, "after term %d", i+1)
			if most > 60 {
				gap -= time.Minute // the one long term
				most -= 60
			}
			require.GreaterOrEqual(t, gap, most*time.Second/2, "after term %d", i+1)
		}
	})
}

func TestSteppingDownLetsOthersIn(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		reasons := make(chan error, 9)
		s.start("a", Options{
			OnElected:  func(context.Context, *leasing.Lease) error { time.Sleep(ttl); return nil },
			OnResigned: func(_ *leasing.Lease, reason error) { reasons <- reason },
		})
		b := s.start("b", Options{})
		require.NoError(t, receive(t, reasons))
		synctest.Wait()
		s.awaitElected(b)
	})
}

func TestAPanicReleasesTheLeaseAndGoesOn(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		candidate, err := New(s.manager("a"), Options{Name: name, OnElected: func(context.Context, *leasing.Lease) error { panic("boom") }})
		require.NoError(t, err)
		require.PanicsWithValue(t, "boom", func() { _ = candidate.Run(t.Context()) })
		require.False(t, s.record().Held)
		require.False(t, candidate.IsLeader())
		require.NoError(t, candidate.Resign(t.Context()), "nothing runs any more")
	})
}

func TestRunEndsWithItsManager(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		manager := s.manager("a")
		result := make(chan error, 1)
		var reason error
		go func() {
			result <- Run(t.Context(), manager, Options{
				Name:       name,
				OnElected:  func(ctx context.Context, _ *leasing.Lease) error { <-ctx.Done(); return ctx.Err() },
				OnResigned: func(_ *leasing.Lease, err error) { reason = err },
			})
		}()
		synctest.Wait()
		require.NoError(t, manager.Close(t.Context()))
		require.ErrorIs(t, receive(t, result), leasing.ErrClosed)
		require.ErrorIs(t, reason, leasing.ErrClosed)
		require.False(t, s.record().Held)
	})
}

func TestACandidateRunsOnceAtATime(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.start("a", Options{})
		require.ErrorContains(t, a.Run(t.Context()), "already runs")
		a.cancel(errStop)
		receive(t, a.result)
		ctx, cancel := context.WithTimeoutCause(t.Context(), ttl, errStop)
		defer cancel()
		require.Equal(t, errStop, a.Run(ctx), "but it may run again")
		require.Equal(t, []string{"a elected", "a done", "a elected", "a done"}, s.notes())
	})
}
