package schedule

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestTheJobsContextEndsWithACause(t *testing.T) {
	causes := func(s *fixture, options Options) (*process, <-chan error) {
		causes := make(chan error, 1)
		return s.run("a", options, func(ctx context.Context, _ Tick) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return ctx.Err()
		}), causes
	}
	withFixture(t, func(t *testing.T, s *fixture) {
		p, cause := causes(s, Options{})
		s.sleepUntil(61 * time.Minute)
		_, err := s.manager("operator").Break(t.Context(), name, leasing.BreakOptions{Immediate: true})
		require.NoError(t, err)
		require.ErrorIs(t, <-cause, leasing.ErrLost)
		synctest.Wait()
		require.ErrorIs(t, p.lastError(), leasing.ErrLost)
		require.Len(t, p.errorTexts(), 1)
		require.Equal(t, 1, strings.Count(p.errorTexts()[0], "lease lost: broken"), "reported once")
	})
	withFixture(t, func(t *testing.T, s *fixture) {
		p, cause := causes(s, Options{Timeout: 10 * time.Minute})
		s.sleepUntil(69 * time.Minute)
		require.Empty(t, cause)
		s.sleepUntil(71 * time.Minute)
		require.Equal(t, ErrTimeout, <-cause)
		require.ErrorIs(t, p.lastError(), ErrTimeout)
		require.ErrorIs(t, p.lastError(), context.DeadlineExceeded)
		s.sleepUntil(131 * time.Minute)
		require.Len(t, s.ticks(), 2, "and the next tick is run")
	})
	withFixture(t, func(t *testing.T, s *fixture) {
		p, cause := causes(s, Options{})
		s.sleepUntil(61 * time.Minute)
		p.stop(errStop)
		require.Equal(t, errStop, <-cause)
		require.Equal(t, errStop, p.awaitEnd())
		require.Empty(t, p.errorTexts(), "that it was stopped is no error of the job")
	})
}

func TestTrap_T59_RunWaitsForTheJobAndKeepsTheLease(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		p := s.run("a", Options{AtLeastOnce: true, Timeout: time.Minute}, func(ctx context.Context, _ Tick) error {
			<-ctx.Done()
			time.Sleep(10 * ttl) // cleaning up
			return nil
		})
		s.run("b", Options{AtLeastOnce: true, Jitter: 20 * time.Second}, nil)
		s.sleepUntil(time.Hour + 30*time.Second)
		owner := s.record(name).Owner
		p.stop(errStop)
		s.sleepUntil(time.Hour + 30*time.Second + 10*ttl - time.Millisecond)
		require.Equal(t, owner, s.record(name).Owner)
		if owner == "a" {
			require.Equal(t, errStop, p.awaitEnd())
		}
		s.sleepUntil(2*time.Hour - time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
		require.Equal(t, 1, s.maxInside)
	})
}

func TestErrorsOfTheJobAreReportedAndTheScheduleGoesOn(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		n := 0
		p := s.run("a", Options{}, func(context.Context, Tick) error {
			switch n++; n {
			case 1:
				return errBoom
			case 2:
				panic("a nil map, say")
			case 3:
				panic(errBoom)
			}
			return nil
		})
		s.sleepUntil(61 * time.Minute)
		require.Equal(t, errBoom, p.lastError(), "as it is")
		require.False(t, s.record(name).Held)
		s.sleepUntil(121 * time.Minute)
		var panicked *PanicError
		require.ErrorAs(t, p.lastError(), &panicked)
		require.Equal(t, "a nil map, say", panicked.Value)
		require.Contains(t, string(panicked.Stack), "TestErrorsOfTheJobAreReported")
		require.EqualError(t, panicked, "schedule: the job panicked: a nil map, say")
		require.False(t, s.record(name).Held)
		s.sleepUntil(181 * time.Minute)
		require.ErrorIs(t, p.lastError(), errBoom, "the value of a panic, if it is an error")
		s.sleepUntil(241 * time.Minute)
		require.Len(t, s.ticks(), 4)
		require.Len(t, p.errorTexts(), 3)
	})
}

func TestARefusedReleaseIsReported(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		p := s.run("a", Options{}, func(context.Context, Tick) error { return errBoom })
		s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Release && call.Name == name {
				return leasing.ErrDenied
			}
			return apply()
		})
		s.sleepUntil(61 * time.Minute)
		require.ErrorIs(t, p.lastError(), errBoom)
		require.ErrorIs(t, p.lastError(), leasing.ErrDenied)
	})
}

func TestRunEndsWhenNextHasNoMore(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		last := s.began.Add(2 * time.Hour)
		p := s.run("a", Options{Next: func(t time.Time) time.Time {
			if t = t.Truncate(time.Hour).Add(time.Hour); t.After(last) {
				return time.Time{}
			}
			return t
		}}, nil)
		s.sleepUntil(121 * time.Minute)
		require.NoError(t, p.awaitEnd())
		require.Equal(t, []string{"01:00:00", "02:00:00"}, s.ticks())
	})
}

func TestOptionsThatCannotWork(t *testing.T) {
	manager, provider := leasingtest.NewManager(t, leasing.Options{})
	onError := func(time.Time, error) {}
	hourly := func(t time.Time) time.Time { return t.Truncate(time.Hour).Add(time.Hour) }
	job := func(context.Context, Tick) error { return nil }
	good := func() Options { return Options{Name: name, Every: time.Hour, OnError: onError} }
	with := func(change func(o *Options)) Options { o := good(); change(&o); return o }
	for field, options := range map[string]Options{
		"Name":                    with(func(o *Options) { o.Name = "" }),
		"Options.Name":            with(func(o *Options) { o.Name = strings.Repeat("n", leasing.MaxNameBytes-35) }),
		"Options.OnError":         with(func(o *Options) { o.OnError = nil }),
		"Options.Every 0":         with(func(o *Options) { o.Every = 0 }),
		"Options.Every -1":        with(func(o *Options) { o.Every = -1 }),
		"Options.Every 9":         with(func(o *Options) { o.Every = 999 * time.Millisecond }),
		"Options.Every 3":         with(func(o *Options) { o.Next = hourly }),
		"Options.StartWithin":     with(func(o *Options) { o.StartWithin = -1 }),
		"Options.Jitter":          with(func(o *Options) { o.Jitter = 30 * time.Minute }),
		"Options.Timeout":         with(func(o *Options) { o.Timeout = -1 }),
		"Options.Lease.WaitLimit": with(func(o *Options) { o.Lease.WaitLimit = 1 }),
		"Options.Next 1": with(func(o *Options) {
			o.Every, o.Next = 0, func(time.Time) time.Time { return time.Unix(1, 0) }
		}),
		"Options.Next 2": with(func(o *Options) {
			o.Every, o.Next = 0, func(t time.Time) time.Time { return t.Add(time.Hour) }
		}),
		// Options that the manager refuses are also reported at once, not at the first tick.
		"AcquireOptions.RenewCadence": with(func(o *Options) { o.Lease = leasing.AcquireOptions{RenewCadence: time.Hour} }),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // valid options would wait for a tick
		err := Run(ctx, manager, options, job)
		cancel()
		require.ErrorIs(t, err, leasing.ErrInvalid, field)
		require.ErrorContains(t, err, strings.Fields(field)[0])
	}
	require.ErrorContains(t, Run(t.Context(), nil, good(), job), "manager")
	require.ErrorContains(t, Run(t.Context(), manager, good(), nil), "job")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	require.Equal(t, errStop, Run(ctx, manager, good(), job))
	require.Empty(t, provider.Calls())

	longest := with(func(o *Options) { o.Name = strings.Repeat("n", leasing.MaxNameBytes-36) })
	require.NoError(t, leasing.ValidateName(longest.markName(time.Date(9999, 1, 2, 3, 4, 5, 123456789, time.UTC))))
	_, err := longest.complete(manager.Capabilities())
	require.NoError(t, err)
}

func TestRunEndsAtOnceWhereItMayNotWork(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		remove := s.provider.Use(leasingtest.Fail(leasingtest.Inspect, 1, leasing.ErrNotSetUp))
		p := s.run("a", Options{}, nil)
		remove()
		select {
		case <-p.done:
		default:
			t.Fatal("Run has not ended")
		}
		require.ErrorIs(t, p.err, leasing.ErrNotSetUp)
		// A refusal may be temporary, and ends Run only after a minute.
		remove = s.provider.Use(leasingtest.Fail(leasingtest.Inspect, leasingtest.Always, leasing.ErrDenied))
		began := time.Now()
		p = s.run("a", Options{}, nil)
		require.ErrorIs(t, p.awaitEnd(), leasing.ErrDenied)
		require.Equal(t, time.Minute, time.Since(began))
		require.Len(t, p.errorTexts(), 1)
		remove()
		s.provider.Use(leasingtest.Fail(leasingtest.Inspect, 4, leasing.ErrDenied))
		// An outage of the backend may be temporary.
		s.provider.Use(leasingtest.Fail(leasingtest.Inspect, 1, leasing.ErrUnavailable))
		s.run("b", Options{}, nil)
		s.sleepUntil(61 * time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
	})
}

func TestRunEndsWhenItMayNoLongerWork(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		p := s.run("a", Options{}, nil)
		s.provider.Use(leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, leasing.ErrDenied))
		s.sleepUntil(61 * time.Minute)
		require.ErrorIs(t, p.awaitEnd(), leasing.ErrDenied)
	})
}

func TestRunEndsWithItsManager(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		p := s.run("a", Options{Every: 24 * time.Hour}, nil)
		require.NoError(t, p.manager.Close(t.Context()))
		time.Sleep(maxSleep)
		synctest.Wait()
		require.ErrorIs(t, p.awaitEnd(), leasing.ErrClosed, "between ticks, within a nap")
	})
	for _, atLeastOnce := range []bool{false, true} {
		withFixture(t, func(t *testing.T, s *fixture) {
			p := s.run("a", Options{AtLeastOnce: atLeastOnce}, func(ctx context.Context, _ Tick) error { <-ctx.Done(); return context.Cause(ctx) })
			s.sleepUntil(61 * time.Minute)
			require.NoError(t, p.manager.Close(t.Context()))
			time.Sleep(time.Second)
			synctest.Wait()
			require.ErrorIs(t, p.awaitEnd(), leasing.ErrClosed, "in the middle of a run")
			require.False(t, s.record(name).Held)
		})
	}
}

func TestShutdownWhileAnotherProcessHasTheTick(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		p := s.run("a", Options{}, nil)
		s.sleepUntil(time.Hour - time.Second)
		s.acquireForCrashed(name)
		s.sleepUntil(time.Hour + 2*time.Second)
		p.stop(errStop)
		synctest.Wait()
		require.Equal(t, errStop, p.awaitEnd())
		require.Empty(t, p.errorTexts())
	})
}

func TestTheLeaseShowsTheTick(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		metadata := map[string]string{"url": "http://node-1"}
		s.run("a", Options{Lease: leasing.AcquireOptions{Metadata: metadata, TTL: time.Minute}}, func(_ context.Context, tick Tick) error {
			require.Equal(t, map[string]string{"url": "http://node-1", "tick": "2000-01-01T01:00:00Z"}, tick.Lease.Metadata())
			require.Equal(t, time.Minute, tick.Lease.TTL())
			return nil
		})
		s.sleepUntil(61 * time.Minute)
		require.Len(t, s.ticks(), 1)
		require.Equal(t, map[string]string{"url": "http://node-1"}, metadata, "the caller's own is not changed")
	})
}

func TestTheErrorsCanBeToldApart(t *testing.T) {
	require.NoError(t, errors.Unwrap(&PanicError{Value: "text"}))
	require.Equal(t, errBoom, errors.Unwrap(&PanicError{Value: errBoom}))
	require.EqualError(t, &MissedError{Err: errBoom}, "schedule: tick missed: boom")
}
