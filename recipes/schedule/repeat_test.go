package schedule

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestAtLeastOnceRepeatsACrashedRun(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.run("a", Options{AtLeastOnce: true}, nil)
		s.run("b", Options{AtLeastOnce: true}, nil)
		s.sleepUntil(time.Hour - time.Second)
		s.acquireForCrashed(name) // in the middle of the job: there is no mark
		s.sleepUntil(2*time.Hour - time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks(), "and then once")
		require.LessOrEqual(t, s.started()[0].at.Sub(s.began.Add(time.Hour)), ttl+lastPause)
	})
}

func TestAtLeastOnceRepeatsWhatWasCutShort(t *testing.T) {
	untilTheEnd := func(ctx context.Context, _ Tick) error { <-ctx.Done(); return ctx.Err() }
	inSpiteOfTheEnd := func(ctx context.Context, _ Tick) error { <-ctx.Done(); return nil }
	for _, c := range []struct {
		what  string
		job   Job
		again bool
	}{
		{"ends with its context", untilTheEnd, true},
		{"fails when its context ends", func(ctx context.Context, _ Tick) error { <-ctx.Done(); return errBoom }, true},
		{"succeeds although its context has ended", inSpiteOfTheEnd, false},
		{"succeeds", func(context.Context, Tick) error { return nil }, false},
		{"fails", func(context.Context, Tick) error { return errBoom }, false},
		{"is cancelled by something else", func(context.Context, Tick) error { return context.Canceled }, false},
		{"panics", func(context.Context, Tick) error { panic("boom") }, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Run("at a shutdown", func(t *testing.T) {
				withFixture(t, func(t *testing.T, s *fixture) {
					s.sleepUntil(30 * time.Minute)
					a := s.run("a", Options{AtLeastOnce: true, Jitter: -1}, c.job)
					s.run("b", Options{AtLeastOnce: true, Jitter: 10 * time.Second, Now: func() time.Time { return time.Now().Add(-time.Second) }}, nil)
					s.sleepUntil(time.Hour + 500*time.Millisecond)
					a.stop(errStop)
					require.Equal(t, errStop, a.awaitEnd())
					s.sleepUntil(2*time.Hour - time.Minute)
					require.Len(t, s.ticks(), 1+map[bool]int{true: 1}[c.again])
				})
			})
			t.Run("by the loss of its lease", func(t *testing.T) {
				withFixture(t, func(t *testing.T, s *fixture) {
					first := true
					s.run("a", Options{AtLeastOnce: true}, func(ctx context.Context, tick Tick) error {
						if !first {
							return nil
						}
						first = false
						time.AfterFunc(time.Second, func() { _, _ = s.manager("operator").Break(t.Context(), name, leasing.BreakOptions{Immediate: true}) })
						return c.job(ctx, tick)
					})
					s.sleepUntil(2*time.Hour - time.Minute)
					require.Len(t, s.ticks(), 1+map[bool]int{true: 1}[c.again])
				})
			})
		})
	}
}

func TestWithAtLeastOnceATickThatComesWhileTheJobRunsIsLate(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		slow := func(ctx context.Context, _ Tick) error { time.Sleep(70 * time.Minute); return ctx.Err() }
		for _, owner := range []string{"a", "b"} {
			s.run(owner, Options{AtLeastOnce: true, StartWithin: time.Hour}, slow)
		}
		s.sleepUntil(5 * time.Hour)
		require.Equal(t, []string{"01:00:00", "02:00:00", "03:00:00", "04:00:00"}, s.ticks())
		require.Equal(t, 1, s.maxInside)
	})
}

func TestAMarkThatCouldNotBeSetAfterTheJobIsReported(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		heal := s.partition(func(call leasingtest.Call) bool { return call.Op == leasingtest.Acquire && call.Name != name })
		p := s.run("a", Options{AtLeastOnce: true, Jitter: -1}, nil)
		s.sleepUntil(time.Hour + 11*time.Second)
		require.ErrorIs(t, p.lastError(), leasing.ErrUnavailable)
		require.ErrorContains(t, p.lastError(), "the job may run again")
		heal()
		s.run("b", Options{AtLeastOnce: true, CatchUp: true}, nil)
		s.sleepUntil(time.Hour + time.Minute)
		require.Equal(t, []string{"01:00:00", "01:00:00"}, s.ticks())
	})
}

func TestAtLeastOnceMarksAlthoughItIsBeingShutDown(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		p := s.run("a", Options{AtLeastOnce: true, Jitter: -1}, func(ctx context.Context, _ Tick) error { <-ctx.Done(); return nil })
		s.sleepUntil(time.Hour + time.Second)
		p.stop(errStop)
		require.Equal(t, errStop, p.awaitEnd())
		require.NotZero(t, s.record(s.markOf(time.Hour)).Token)
	})
}
