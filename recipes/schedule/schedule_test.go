package schedule

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestEachTickRunsOnceAcrossAllProcesses(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		var processes []*process
		for i := range 5 {
			processes = append(processes, s.run(fmt.Sprint(i), Options{}, nil))
		}
		s.sleepUntil(24*time.Hour + 30*time.Minute)
		starts := s.started()
		require.Len(t, starts, 24)
		owners := map[string]bool{}
		for i, start := range starts {
			tick := s.began.Add(time.Duration(i+1) * time.Hour)
			require.Equal(t, tick, start.tick, "in UTC")
			require.WithinRange(t, start.at, tick, tick.Add(time.Second))
			owners[start.owner] = true
			if i > 0 {
				require.Greater(t, start.token, starts[i-1].token, "tokens rise from run to run")
			}
		}
		require.Greater(t, len(owners), 1, "whoever comes first")
		for _, p := range processes {
			require.Empty(t, p.errorTexts())
		}
		require.False(t, s.record(name).Held, "between ticks nothing is held")
	})
}

func TestNoTickIsStartedLaterThanStartWithin(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		p := s.run("a", Options{StartWithin: 5 * time.Minute}, nil)
		heal := s.partition(func(leasingtest.Call) bool { return true })
		s.sleepUntil(64 * time.Minute)
		require.Empty(t, p.errorTexts())
		s.sleepUntil(66 * time.Minute)
		require.Len(t, p.errorTexts(), 1)
		var missed *MissedError
		require.ErrorAs(t, p.lastError(), &missed)
		require.ErrorIs(t, missed, leasing.ErrUnavailable)
		heal()
		s.sleepUntil(2*time.Hour + time.Minute)
		require.Equal(t, []string{"02:00:00"}, s.ticks())

		heal = s.partition(func(leasingtest.Call) bool { return true })
		s.sleepUntil(3*time.Hour + 4*time.Minute)
		heal()
		s.sleepUntil(3*time.Hour + 5*time.Minute)
		require.Equal(t, []string{"02:00:00", "03:00:00"}, s.ticks(), "within it, it is")
		require.Len(t, p.errorTexts(), 1)
	})
}

func TestATickIsOverWhenTheNextOneComes(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		p := s.run("a", Options{Every: time.Minute}, nil)
		heal := s.partition(func(leasingtest.Call) bool { return true })
		s.sleepUntil(3*time.Minute + 30*time.Second)
		require.Len(t, p.errorTexts(), 2, "of the first two")
		heal()
		s.sleepUntil(4*time.Minute + 10*time.Second)
		require.Equal(t, []string{"00:03:00", "00:04:00"}, s.ticks())

		heal = s.partition(func(leasingtest.Call) bool { return true })
		s.sleepUntil(6*time.Minute - time.Millisecond)
		heal()
		s.sleepUntil(6*time.Minute + 2*time.Second)
		require.Equal(t, []string{"00:03:00", "00:04:00", "00:06:00"}, s.ticks(), "the next one is not late for it")
	})
}

func TestTheFastestTimetable(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		for _, owner := range []string{"a", "b"} {
			s.run(owner, Options{Every: time.Second}, nil)
		}
		s.sleepUntil(time.Minute + 900*time.Millisecond)
		require.Len(t, s.ticks(), 60)
	})
}

func TestJitterSpreadsTheStarts(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.run("a", Options{Jitter: 10 * time.Minute}, nil)
		s.sleepUntil(20*time.Hour + 30*time.Minute)
		least, most := time.Hour, time.Duration(0)
		for _, start := range s.started() {
			least, most = min(least, start.at.Sub(start.tick)), max(most, start.at.Sub(start.tick))
		}
		require.Len(t, s.started(), 20)
		require.Greater(t, most-least, 2*time.Minute)
		require.LessOrEqual(t, most, 10*time.Minute)
	})
	withFixture(t, func(t *testing.T, s *fixture) {
		s.run("a", Options{Every: time.Minute, Jitter: 20 * time.Minute}, nil)
		s.sleepUntil(10*time.Minute + 31*time.Second)
		require.Len(t, s.started(), 10, "it lets no tick pass")
	})
}

func TestAProcessThatBeginsWaitsForTheNextTick(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.sleepUntil(70 * time.Minute)
		s.run("a", Options{}, nil)
		s.sleepUntil(110 * time.Minute)
		require.Empty(t, s.ticks())
		s.sleepUntil(125 * time.Minute)
		require.Equal(t, []string{"02:00:00"}, s.ticks())
	})
}

func TestCatchUp(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.sleepUntil(3*time.Hour + 10*time.Minute)
		s.run("a", Options{CatchUp: true}, nil)
		s.sleepUntil(3*time.Hour + 11*time.Minute)
		require.Equal(t, []string{"03:00:00"}, s.ticks(), "the current tick, once; none before it")
		s.run("b", Options{CatchUp: true}, nil)
		s.sleepUntil(3*time.Hour + 20*time.Minute)
		require.Equal(t, []string{"03:00:00"}, s.ticks(), "which has been started by now")
		s.sleepUntil(4*time.Hour + time.Minute)
		require.Equal(t, []string{"03:00:00", "04:00:00"}, s.ticks())
	})
	withFixture(t, func(t *testing.T, s *fixture) {
		s.sleepUntil(40 * time.Minute)
		s.run("a", Options{CatchUp: true}, nil)
		s.sleepUntil(50 * time.Minute)
		require.Empty(t, s.ticks(), "00:00 is no longer current")
	})
}

func TestATickThatComesWhileTheJobRunsIsSkipped(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		slow := func(ctx context.Context, _ Tick) error { time.Sleep(150 * time.Minute); return ctx.Err() }
		var processes []*process
		for _, owner := range []string{"a", "b", "c"} {
			processes = append(processes, s.run(owner, Options{StartWithin: time.Hour}, slow))
		}
		s.sleepUntil(8*time.Hour + 30*time.Minute)
		require.Equal(t, []string{"01:00:00", "04:00:00", "07:00:00"}, s.ticks())
		require.Equal(t, 1, s.maxInside)
		texts := []string{}
		for _, p := range processes {
			texts = append(texts, p.errorTexts()...)
			for _, err := range p.raw {
				var skipped *SkippedError
				require.ErrorAs(t, err, &skipped)
				require.Equal(t, 2, skipped.Ticks)
			}
		}
		require.ElementsMatch(t, []string{
			"03:00:00: schedule: 2 ticks skipped: the run of 2000-01-01T01:00:00Z was still under way",
			"06:00:00: schedule: 2 ticks skipped: the run of 2000-01-01T04:00:00Z was still under way",
		}, texts, "by whoever ran it")
	})
}

func TestATickThatCameWhileARunWasCutShortIsLeftToOthers(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.run("a", Options{Jitter: -1}, func(ctx context.Context, _ Tick) error { <-ctx.Done(); return context.Cause(ctx) })
		s.run("b", Options{Jitter: 10 * time.Second, Now: func() time.Time { return time.Now().Add(-time.Second) }}, nil)
		s.sleepUntil(2*time.Hour + time.Minute)
		a.stop(errStop)
		require.Equal(t, errStop, a.awaitEnd())
		require.Empty(t, a.errorTexts())
		s.sleepUntil(2*time.Hour + 2*time.Minute)
		require.Equal(t, []string{"01:00:00", "02:00:00"}, s.ticks()[1:], "after that of midnight, by the clock of b")
	})
}

func TestTheCostOfATick(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		s.provider.Use(func(_ context.Context, _ leasingtest.Call, apply func() error) error {
			time.Sleep(time.Millisecond) // no reply arrives at the same instant as its request
			return apply()
		})
		s.run("a", Options{}, nil)
		s.sleepUntil(time.Hour - time.Second)
		before := len(s.provider.Calls())
		s.sleepUntil(61 * time.Minute)
		require.Equal(t, 5, len(s.provider.Calls())-before)
		s.sleepUntil(2*time.Hour - time.Second)
		require.Equal(t, 5, len(s.provider.Calls())-before, "none in between")

		const others = 9
		for i := range others {
			s.run(fmt.Sprint(i), Options{}, nil)
		}
		before = len(s.provider.Calls())
		s.sleepUntil(121 * time.Minute)
		require.LessOrEqual(t, len(s.provider.Calls())-before, 6+2*others, "most find the mark; some may come at the same moment")
	})
	withFixture(t, func(t *testing.T, s *fixture) {
		s.run("a", Options{Jitter: -1}, func(context.Context, Tick) error { time.Sleep(90 * time.Minute); return nil })
		s.run("b", Options{Jitter: 10 * time.Second}, nil)
		s.sleepUntil(2*time.Hour + time.Minute)
		before := len(s.provider.Calls())
		s.sleepUntil(2*time.Hour + 21*time.Minute)
		renewals := 0
		for _, call := range s.provider.Calls()[before:] {
			if call.Op == leasingtest.Renew {
				renewals++
			}
		}
		require.LessOrEqual(t, len(s.provider.Calls())-before-renewals, 20*12, "of those who wait for the run before, a few a minute")
	})
}
