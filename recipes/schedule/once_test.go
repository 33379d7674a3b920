package schedule

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	"github.com/distributedleasing/leasing/fencing"
)

func TestACrashedRunIsNotRepeated(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		p := s.run("a", Options{}, nil)
		s.sleepUntil(time.Hour - time.Second)
		s.acquireForCrashed(name)
		s.acquireForCrashed(s.markOf(time.Hour))
		s.sleepUntil(90 * time.Minute)
		require.Empty(t, s.ticks())
		require.Empty(t, p.errorTexts())
		s.sleepUntil(2*time.Hour + time.Minute)
		require.Equal(t, []string{"02:00:00"}, s.ticks())
	})
}

func TestATickIsStartedByAnotherIfTheFirstCrashesBeforeItHasTakenIt(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.run("a", Options{}, nil)
		s.sleepUntil(time.Hour - time.Second)
		s.acquireForCrashed(name)
		s.sleepUntil(2*time.Hour - time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
		require.LessOrEqual(t, s.started()[0].at.Sub(s.began.Add(time.Hour)), ttl+lastPause)
	})
}

func TestWhatWasCutShortIsNotRepeatedWithoutAtLeastOnce(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		job := func(ctx context.Context, _ Tick) error { <-ctx.Done(); return ctx.Err() }
		a := s.run("a", Options{Jitter: -1}, job)
		s.run("b", Options{Jitter: 10 * time.Second}, nil)
		s.sleepUntil(time.Hour + 500*time.Millisecond)
		a.stop(errStop)
		require.Equal(t, errStop, a.awaitEnd())
		s.sleepUntil(2*time.Hour - time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
	})
}

func TestAPausedRunIsFenced(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		var ledger fencing.Gate
		write := func(tick Tick) error {
			return ledger.Do(t.Context(), tick.Token(), func(context.Context) error { return nil })
		}
		wake := make(chan struct{})
		results := make(chan error, 3)
		ours := func(call leasingtest.Call) bool { return call.Op == leasingtest.Renew }
		a := s.run("a", Options{}, func(_ context.Context, tick Tick) error { // it ignores its context
			results <- write(tick)
			<-wake
			results <- write(tick)
			return nil
		})
		defer s.partition(ours)()
		s.sleepUntil(time.Hour + time.Minute)
		s.run("b", Options{Jitter: -1}, func(_ context.Context, tick Tick) error { results <- write(tick); return nil })
		require.NoError(t, <-results)
		s.sleepUntil(2*time.Hour + time.Minute)
		require.NoError(t, <-results, "the next tick's run, beside the paused one")
		require.Equal(t, []string{"01:00:00", "02:00:00"}, s.ticks())
		close(wake)
		require.ErrorIs(t, <-results, leasing.ErrStale)
		synctest.Wait()
		require.ErrorIs(t, a.lastError(), leasing.ErrLost)
	})
}

func TestTrap_T13_ALostReplyOfTheMarkDoesNotLoseTheTick(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		lost := 0
		s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			err := apply()
			if call.Op == leasingtest.Acquire && call.Name != name && lost < 3 {
				lost++
				return leasing.ErrUnavailable
			}
			return err
		})
		p := s.run("a", Options{}, nil)
		s.sleepUntil(61 * time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
		require.Equal(t, 3, lost)
		require.Empty(t, p.errorTexts())
	})
}

func TestAMarkThatIsNotCertain(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		remove := s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			err := apply()
			if call.Op == leasingtest.Acquire && call.Name != name {
				return leasing.ErrUnavailable
			}
			return err
		})
		a := s.run("a", Options{}, nil)
		b := s.run("b", Options{Jitter: 20 * time.Second}, nil)
		s.sleepUntil(62 * time.Minute)
		remove()
		s.sleepUntil(2*time.Hour - time.Minute)
		require.Empty(t, s.ticks())
		texts := append(a.errorTexts(), b.errorTexts()...)
		require.Len(t, texts, 1, "by the one who does not know")
		require.Contains(t, texts[0], "tick missed")
		s.sleepUntil(121 * time.Minute)
		require.Equal(t, []string{"02:00:00"}, s.ticks())
	})
}

func TestAMarkThatIsNotCertainAtAShutdown(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			err := apply()
			if call.Op == leasingtest.Acquire && call.Name != name {
				return leasing.ErrUnavailable
			}
			return err
		})
		p := s.run("a", Options{}, nil)
		s.sleepUntil(time.Hour + 5*time.Second)
		p.stop(errStop)
		require.Equal(t, errStop, p.awaitEnd())
		var missed *MissedError
		require.ErrorAs(t, p.lastError(), &missed)
	})
}

func TestTheReleaseOfTheMarkIsNotWaitedForLong(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.provider.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Release && call.Name != name {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return apply()
		})
		s.run("a", Options{Jitter: -1}, nil)
		s.sleepUntil(time.Hour + 3*time.Second)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
		s.sleepUntil(time.Hour + time.Minute)
	})
}

func TestAMarkThatCouldNotBeSet(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		heal := s.partition(func(call leasingtest.Call) bool { return call.Op == leasingtest.Acquire && call.Name != name })
		p := s.run("a", Options{}, nil)
		s.sleepUntil(65 * time.Minute)
		require.Empty(t, s.ticks())
		heal()
		s.sleepUntil(67 * time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
		require.Empty(t, p.errorTexts(), "it was started after all")
	})
}

func TestALeaseLostWhileTheMarkIsSet(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.run("a", Options{Jitter: -1}, nil)
		slow := true
		s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			switch {
			case call.Op == leasingtest.Renew:
				return leasing.ErrUnavailable
			case call.Op == leasingtest.Acquire && call.Name != name && slow:
				slow = false
				time.Sleep(5 * time.Second) // in flight for longer than the lease lives
				time.Sleep(2 * ttl)
			}
			return apply()
		})
		s.sleepUntil(time.Hour + time.Second)
		s.run("b", Options{CatchUp: true, Jitter: -1}, nil)
		s.sleepUntil(90 * time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
		require.Greater(t, s.started()[0].at.Sub(s.began), time.Hour+ttl-time.Second, "under another lease")
		require.NotEmpty(t, a.errorTexts())
		require.ErrorIs(t, a.lastError(), leasing.ErrLost)
	})
}

// bounded is a backend that limits the TTL.
type bounded struct {
	abstractions.Provider
	most time.Duration
}

func (b bounded) Capabilities() abstractions.Capabilities {
	c := b.Provider.Capabilities()
	c.MaxTTL = b.most
	return c
}

// forgetful is a backend that forgets a name as soon as its lease has ended.
type forgetful struct{ abstractions.Provider }

func (f forgetful) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	r, err := f.Provider.Inspect(ctx, req)
	if !r.Held {
		r = abstractions.Record{Name: req.Name}
	}
	return r, err
}

// A backend remembers a released name only for its retention. The mark of a tick lasts for
// StartWithin plus the allowance for clock differences, even after its process has ended.
func TestTrap_T132_AMarkOutlivesTheRetention(t *testing.T) {
	within := 6 * time.Hour
	daily := func(change Options) Options {
		change.Every, change.StartWithin, change.Jitter = 24*time.Hour, within, -1
		return change
	}
	for what, options := range map[string]Options{"at most once": {}, "at least once": {AtLeastOnce: true}} {
		t.Run(what, func(t *testing.T) {
			withFixture(t, func(t *testing.T, s *fixture) {
				s.decorated = forgetful{s.provider}
				a := s.run("a", daily(options), nil)
				s.sleepUntil(24*time.Hour + time.Minute)
				require.Equal(t, []string{"00:00:00"}, s.ticks())
				a.stop(errStop)
				require.Equal(t, errStop, a.awaitEnd())
				require.NoError(t, a.manager.Close(t.Context()), "the process ends")
				options := daily(options)
				options.CatchUp = true
				behind := options
				behind.Now = func() time.Time { return time.Now().Add(-time.Hour) }
				for after := 2 * time.Minute; after < within; after += 59 * time.Minute {
					s.sleepUntil(24*time.Hour + after)
					s.run("new"+after.String(), options, nil)
				}
				s.sleepUntil(24*time.Hour + within + 59*time.Minute)
				s.run("behind", behind, nil)
				require.Len(t, s.ticks(), 1)
				s.sleepUntil(48*time.Hour - time.Minute)
				require.Len(t, s.ticks(), 1)
			})
		})
	}
	t.Run("skipped", func(t *testing.T) {
		withFixture(t, func(t *testing.T, s *fixture) {
			s.decorated = forgetful{s.provider}
			options := Options{Every: 8 * time.Hour, StartWithin: within}
			a := s.run("a", options, func(context.Context, Tick) error { time.Sleep(9 * time.Hour); return nil })
			s.sleepUntil(18 * time.Hour)
			a.stop(errStop)
			require.Equal(t, errStop, a.awaitEnd())
			require.NoError(t, a.manager.Close(t.Context()))
			options.CatchUp = true
			s.sleepUntil(21 * time.Hour)
			s.run("b", options, nil)
			s.sleepUntil(22 * time.Hour)
			require.Equal(t, []string{"08:00:00"}, s.ticks(), "that of 16:00 was skipped")
		})
	})
	t.Run("as long as the backend can", func(t *testing.T) {
		withFixture(t, func(t *testing.T, s *fixture) {
			s.decorated = bounded{forgetful{s.provider}, time.Minute}
			a := s.run("a", Options{}, nil)
			s.sleepUntil(time.Hour + 2*time.Second)
			a.stop(errStop)
			require.NoError(t, a.manager.Close(t.Context()))
			for after := 5 * time.Second; after < 3*time.Minute; after += 5 * time.Second {
				s.sleepUntil(time.Hour + after)
				s.run("new"+after.String(), Options{CatchUp: true}, nil)
			}
			s.sleepUntil(time.Hour + 5*time.Minute)
			require.Equal(t, []string{"01:00:00"}, s.ticks())
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := Run(ctx, s.manager("b"), Options{Name: name, Every: time.Hour, StartWithin: 31 * time.Second, OnError: func(time.Time, error) {}}, func(context.Context, Tick) error { return nil })
			require.ErrorIs(t, err, leasing.ErrInvalid)
			require.ErrorContains(t, err, "Options.StartWithin")
			require.ErrorContains(t, err, "at most 30s")
		})
	})
	t.Run("beside a policy of short leases", func(t *testing.T) {
		withFixture(t, func(t *testing.T, s *fixture) {
			s.decorated = forgetful{s.provider}
			m := leasingtest.NewManagerOn(t, s.decorated, leasing.Options{TTLPolicy: func(leasing.TTLRequest) time.Duration { return ttl }})
			options := Options{Name: name, Every: time.Hour, OnError: func(_ time.Time, err error) { t.Error(err) }}
			runs := 0
			count := func(context.Context, Tick) error { runs++; return nil }
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour+time.Minute)
			defer cancel()
			require.ErrorIs(t, Run(ctx, m, options, count), context.DeadlineExceeded)
			require.NoError(t, m.Close(t.Context()))
			ctx, cancel = context.WithTimeout(t.Context(), 30*time.Minute)
			defer cancel()
			options.CatchUp = true
			require.ErrorIs(t, Run(ctx, s.manager("b"), options, count), context.DeadlineExceeded)
			require.Equal(t, 1, runs)
		})
	})
}

type lapsed struct{ abstractions.Lease }

func (lapsed) Err() error { return &leasing.LostError{Reason: leasing.LostExpired} }

type stopping struct {
	abstractions.Lease
	stop func()
}

func (l stopping) Err() error { l.stop(); return nil }

func TestATickThatCannotBeStartedOnceItIsMarkedIsMissed(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		m := s.manager("a")
		options, err := Options{Name: name, Every: time.Hour, OnError: func(time.Time, error) {}}.complete(m.Capabilities())
		require.NoError(t, err)
		r := &runner{Options: options, manager: m, job: func(context.Context, Tick) error {
			t.Error("started")
			return nil
		}}
		lease, err := m.TryAcquire(t.Context(), name)
		require.NoError(t, err)
		defer lease.Release(t.Context())
		var missed *MissedError

		result := r.runTick(t.Context(), Tick{At: s.began.Add(time.Hour), Lease: leasing.LeaseOf(lapsed{lease})})
		require.True(t, result.done)
		require.ErrorAs(t, result.failure, &missed)
		require.ErrorIs(t, missed, leasing.ErrLost)

		ctx, cancel := context.WithCancelCause(t.Context())
		result = r.runTick(ctx, Tick{At: s.began.Add(2 * time.Hour), Lease: leasing.LeaseOf(stopping{lease, func() { cancel(errStop) }})})
		require.True(t, result.done)
		require.ErrorAs(t, result.failure, &missed)
		require.ErrorIs(t, missed, errStop)
	})
}

// lagging is a backend whose reads show an earlier state for a while.
type lagging struct {
	abstractions.Provider
	until time.Time
}

func (l lagging) Capabilities() abstractions.Capabilities {
	c := l.Provider.Capabilities()
	c.ReadsMayLag = true
	return c
}

func (l lagging) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	if time.Now().Before(l.until) {
		return abstractions.Record{Name: req.Name}, nil
	}
	return l.Provider.Inspect(ctx, req)
}

// T91: a read that may lag does not decide whether a tick was taken before.
func TestTrap_T91_AMarkThatReadsDoNotShowYet(t *testing.T) {
	for _, atLeastOnce := range []bool{false, true} {
		withFixture(t, func(t *testing.T, s *fixture) {
			s.decorated = lagging{s.provider, s.began.Add(time.Hour + time.Minute)}
			for i := range 3 {
				s.run(strconv.Itoa(i), Options{Jitter: time.Duration(i+1) * time.Second, AtLeastOnce: atLeastOnce}, nil)
			}
			s.sleepUntil(2*time.Hour - time.Minute)
			require.Equal(t, []string{"01:00:00"}, s.ticks())
		})
	}
}
