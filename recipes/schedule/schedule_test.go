package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // the timetable of a place, wherever the test runs

	"github.com/stretchr/testify/require"

	leasing "github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	"github.com/distributedleasing/leasing/fencing"
)

func TestEachTickRunsOnceAcrossAllProcesses(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		var processes []*process
		for i := range 5 {
			processes = append(processes, s.run(fmt.Sprint(i), Options{}, nil))
		}
		s.until(24*time.Hour + 30*time.Minute)
		starts := s.started()
		require.Len(t, starts, 24)
		owners := map[string]bool{}
		for i, start := range starts {
			tick := s.began.Add(time.Duration(i+1) * time.Hour)
			require.Equal(t, tick, start.tick, "in UTC")
			require.WithinRange(t, start.at, tick, tick.Add(defaultJitter))
			owners[start.owner] = true
			if i > 0 {
				require.Greater(t, start.token, starts[i-1].token, "tokens rise from run to run")
			}
		}
		require.Greater(t, len(owners), 1, "whoever comes first")
		for _, p := range processes {
			require.Empty(t, p.told())
		}
		require.False(t, s.record(name).Held, "between ticks nothing is held")
	})
}

// Whatever the clocks say: a lock that is held while the job runs would be free
// again when a clock that is behind gets to the tick.
func TestClocksThatDisagreeStartNoTickTwice(t *testing.T) {
	for _, atLeastOnce := range []bool{false, true} {
		t.Run(fmt.Sprintf("AtLeastOnce %v", atLeastOnce), func(t *testing.T) {
			onStage(t, func(t *testing.T, s *stage) {
				s.until(30 * time.Minute)
				skews := []time.Duration{-20 * time.Minute, -time.Minute, 0, 30 * time.Second, 10 * time.Minute}
				for i, skew := range skews {
					s.run(fmt.Sprint(i), Options{
						AtLeastOnce: atLeastOnce,
						Now:         func() time.Time { return time.Now().Add(skew) },
					}, nil)
				}
				s.until(24*time.Hour + 30*time.Minute)
				starts := s.started()
				require.Len(t, starts, 24)
				for i, start := range starts {
					tick := s.began.Add(time.Duration(i+1) * time.Hour)
					require.Equal(t, tick, start.tick)
					require.Equal(t, "4", start.owner, "the clock that is ahead of the others starts it")
					require.WithinRange(t, start.at, tick.Add(-10*time.Minute), tick.Add(-10*time.Minute+defaultJitter))
				}
			})
		})
	}
}

// A clock that is stepped back repeats no tick, and one that was far in the
// future is not waited for.
func TestAClockThatIsStepped(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		var step atomic.Int64
		set := func(d time.Duration) { step.Store(int64(d)) }
		s.run("a", Options{Now: func() time.Time { return time.Now().Add(time.Duration(step.Load())) }}, nil)
		s.until(61 * time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
		set(-10 * time.Minute) // 00:51: the tick comes again
		s.until(85 * time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
		set(100 * 24 * time.Hour) // wrong by far, over a tick
		s.until(125 * time.Minute)
		require.Len(t, s.ticks(), 3, "two of that day")
		set(0)
		s.until(185 * time.Minute)
		require.Len(t, s.ticks(), 4, "it follows the right time again")
		require.Equal(t, s.began.Add(3*time.Hour), s.started()[3].tick)

		// Forward over several ticks: the latest alone is current.
		set(5*time.Hour + 10*time.Minute)
		s.until(190 * time.Minute)
		require.Equal(t, []string{"08:00:00"}, s.ticks()[4:])
	})
}

// A timer does not count the time for which a machine was suspended, nor does
// it know that the clock was set. Here the clock runs on and the timer doesn't.
func TestATickIsSeenSoonAfterTheClockJumpedOverIt(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		var asleep atomic.Int64
		s.run("a", Options{Every: 24 * time.Hour, Now: func() time.Time { return time.Now().Add(time.Duration(asleep.Load())) }}, nil)
		s.until(time.Hour)
		asleep.Store(int64(23*time.Hour + time.Minute))
		s.until(time.Hour + maxNap + defaultJitter)
		require.Equal(t, []string{"00:00:00"}, s.ticks())
	})
}

// A tick that has not been started when its time is over is not started late.
func TestNoTickIsStartedLaterThanStartWithin(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		p := s.run("a", Options{StartWithin: 5 * time.Minute}, nil)
		heal := s.partition(func(leasingtest.Call) bool { return true })
		s.until(64 * time.Minute)
		require.Empty(t, p.told())
		s.until(66 * time.Minute)
		require.Len(t, p.told(), 1)
		var missed *MissedError
		require.ErrorAs(t, p.lastError(), &missed)
		require.ErrorIs(t, missed, leasing.ErrUnavailable)
		heal()
		s.until(2*time.Hour + time.Minute)
		require.Equal(t, []string{"02:00:00"}, s.ticks())

		heal = s.partition(func(leasingtest.Call) bool { return true })
		s.until(3*time.Hour + 4*time.Minute)
		heal()
		s.until(3*time.Hour + 5*time.Minute)
		require.Equal(t, []string{"02:00:00", "03:00:00"}, s.ticks(), "within it, it is")
		require.Len(t, p.told(), 1)
	})
}

func TestATickIsOverWhenTheNextOneComes(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		p := s.run("a", Options{Every: time.Minute}, nil)
		heal := s.partition(func(leasingtest.Call) bool { return true })
		s.until(3*time.Minute + 30*time.Second)
		require.Len(t, p.told(), 2, "of the first two")
		heal()
		s.until(4*time.Minute + 10*time.Second)
		require.Equal(t, []string{"00:03:00", "00:04:00"}, s.ticks())

		heal = s.partition(func(leasingtest.Call) bool { return true })
		s.until(6*time.Minute - time.Millisecond)
		heal()
		s.until(6*time.Minute + 2*defaultJitter)
		require.Equal(t, []string{"00:03:00", "00:04:00", "00:06:00"}, s.ticks(), "the next one is not late for it")
	})
}

func TestTheFastestTimetable(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		for _, owner := range []string{"a", "b"} {
			s.run(owner, Options{Every: time.Second}, nil)
		}
		s.until(time.Minute + 900*time.Millisecond)
		require.Len(t, s.ticks(), 60)
	})
}

func TestJitterSpreadsTheStarts(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.run("a", Options{Jitter: 10 * time.Minute}, nil)
		s.until(20*time.Hour + 30*time.Minute)
		least, most := time.Hour, time.Duration(0)
		for _, start := range s.started() {
			least, most = min(least, start.at.Sub(start.tick)), max(most, start.at.Sub(start.tick))
		}
		require.Len(t, s.started(), 20)
		require.Greater(t, most-least, 2*time.Minute)
		require.LessOrEqual(t, most, 10*time.Minute)
	})
	onStage(t, func(t *testing.T, s *stage) {
		s.run("a", Options{Every: time.Minute, Jitter: 20 * time.Minute}, nil)
		s.until(10*time.Minute + 31*time.Second)
		require.Len(t, s.started(), 10, "it lets no tick pass")
	})
}

// A machine without a clock of its own begins in 1970.
func TestAJumpOverManyTicksIsCheap(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		var ahead, asked atomic.Int64
		ahead.Store(-int64(30 * 365 * 24 * time.Hour))
		s.run("a", Options{
			Now:  func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
			Next: func(t time.Time) time.Time { asked.Add(1); return t.Truncate(time.Minute).Add(time.Minute) },
		}, nil)
		s.until(30 * time.Second)
		ahead.Store(0)
		s.until(2*time.Minute + defaultJitter)
		require.Equal(t, []string{"00:01:00", "00:02:00"}, s.ticks()[max(0, len(s.ticks())-2):])
		require.LessOrEqual(t, asked.Load(), int64(100))
	})
}

func TestAProcessThatBeginsWaitsForTheNextTick(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.until(70 * time.Minute)
		s.run("a", Options{}, nil)
		s.until(110 * time.Minute)
		require.Empty(t, s.ticks())
		s.until(125 * time.Minute)
		require.Equal(t, []string{"02:00:00"}, s.ticks())
	})
}

func TestCatchUp(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.until(3*time.Hour + 10*time.Minute)
		s.run("a", Options{CatchUp: true}, nil)
		s.until(3*time.Hour + 11*time.Minute)
		require.Equal(t, []string{"03:00:00"}, s.ticks(), "the current tick, once; none before it")
		s.run("b", Options{CatchUp: true}, nil)
		s.until(3*time.Hour + 20*time.Minute)
		require.Equal(t, []string{"03:00:00"}, s.ticks(), "which has been started by now")
		s.until(4*time.Hour + time.Minute)
		require.Equal(t, []string{"03:00:00", "04:00:00"}, s.ticks())
	})
	onStage(t, func(t *testing.T, s *stage) {
		s.until(40 * time.Minute)
		s.run("a", Options{CatchUp: true}, nil)
		s.until(50 * time.Minute)
		require.Empty(t, s.ticks(), "00:00 is no longer current")
	})
}

// A lock that is free again when the run has crashed would start it again.
func TestACrashedRunIsNotRepeated(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		p := s.run("a", Options{}, nil)
		s.until(time.Hour - time.Second)
		s.crashed(name)
		s.crashed(s.markOf(time.Hour))
		s.until(90 * time.Minute)
		require.Empty(t, s.ticks())
		require.Empty(t, p.told())
		s.until(2*time.Hour + time.Minute)
		require.Equal(t, []string{"02:00:00"}, s.ticks())
	})
}

// One that crashed before it took the tick leaves it to the others.
func TestATickIsStartedByAnotherIfTheFirstCrashesBeforeItHasTakenIt(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.run("a", Options{}, nil)
		s.until(time.Hour - time.Second)
		s.crashed(name)
		s.until(2*time.Hour - time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
		require.LessOrEqual(t, s.started()[0].at.Sub(s.began.Add(time.Hour)), ttl+lastPause)
	})
}

func TestAtLeastOnceRepeatsACrashedRun(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.run("a", Options{AtLeastOnce: true}, nil)
		s.run("b", Options{AtLeastOnce: true}, nil)
		s.until(time.Hour - time.Second)
		s.crashed(name) // in the middle of the job: there is no mark
		s.until(2*time.Hour - time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks(), "and then once")
		require.LessOrEqual(t, s.started()[0].at.Sub(s.began.Add(time.Hour)), ttl+lastPause)
	})
}

// What has been cut short, by the loss of the lease or by a shutdown, is
// started again; what has returned of its own accord is not.
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
				onStage(t, func(t *testing.T, s *stage) {
					s.until(30 * time.Minute)
					a := s.run("a", Options{AtLeastOnce: true, Jitter: -1}, c.job)
					s.run("b", Options{AtLeastOnce: true, Jitter: 10 * time.Second, Now: func() time.Time { return time.Now().Add(-time.Second) }}, nil)
					s.until(time.Hour + 500*time.Millisecond)
					a.stop(errStop)
					require.Equal(t, errStop, a.ended())
					s.until(2*time.Hour - time.Minute)
					require.Len(t, s.ticks(), 1+map[bool]int{true: 1}[c.again])
				})
			})
			t.Run("by the loss of its lease", func(t *testing.T) {
				onStage(t, func(t *testing.T, s *stage) {
					first := true
					s.run("a", Options{AtLeastOnce: true}, func(ctx context.Context, tick Tick) error {
						if !first {
							return nil
						}
						first = false
						time.AfterFunc(time.Second, func() { _, _ = s.manager("operator").Break(t.Context(), name, leasing.BreakOptions{Immediate: true}) })
						return c.job(ctx, tick)
					})
					s.until(2*time.Hour - time.Minute)
					require.Len(t, s.ticks(), 1+map[bool]int{true: 1}[c.again])
				})
			})
		})
	}
}

func TestWhatWasCutShortIsNotRepeatedWithoutAtLeastOnce(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		job := func(ctx context.Context, _ Tick) error { <-ctx.Done(); return ctx.Err() }
		a := s.run("a", Options{Jitter: -1}, job)
		s.run("b", Options{Jitter: 10 * time.Second}, nil)
		s.until(time.Hour + 500*time.Millisecond)
		a.stop(errStop)
		require.Equal(t, errStop, a.ended())
		s.until(2*time.Hour - time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
	})
}

// The one that lost its lease may still be at work, and be at it twice; the
// resource tells them apart.
func TestAPausedRunIsFenced(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		var ledger fencing.Gate
		write := func(tick Tick) error {
			return ledger.Do(t.Context(), tick.Token(), func(context.Context) error { return nil })
		}
		wake := make(chan struct{})
		results := make(chan error, 3)
		ours := func(call leasingtest.Call) bool { return call.Op == leasingtest.Renew }
		a := s.run("a", Options{}, func(_ context.Context, tick Tick) error { // it heeds no context
			results <- write(tick)
			<-wake
			results <- write(tick)
			return nil
		})
		defer s.partition(ours)()
		s.until(time.Hour + time.Minute)
		s.run("b", Options{Jitter: -1}, func(_ context.Context, tick Tick) error { results <- write(tick); return nil })
		require.NoError(t, <-results)
		s.until(2*time.Hour + time.Minute)
		require.NoError(t, <-results, "the next tick's run, beside the paused one")
		require.Equal(t, []string{"01:00:00", "02:00:00"}, s.ticks())
		close(wake)
		require.ErrorIs(t, <-results, leasing.ErrStale)
		synctest.Wait()
		require.ErrorIs(t, a.lastError(), leasing.ErrLost)
	})
}

func TestATickThatComesWhileTheJobRunsIsSkipped(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		slow := func(ctx context.Context, _ Tick) error { time.Sleep(150 * time.Minute); return ctx.Err() }
		var processes []*process
		for _, owner := range []string{"a", "b", "c"} {
			processes = append(processes, s.run(owner, Options{StartWithin: time.Hour}, slow))
		}
		s.until(8*time.Hour + 30*time.Minute)
		require.Equal(t, []string{"01:00:00", "04:00:00", "07:00:00"}, s.ticks())
		require.Equal(t, 1, s.most)
		told := []string{}
		for _, p := range processes {
			told = append(told, p.told()...)
			for _, err := range p.raw {
				var skipped *SkippedError
				require.ErrorAs(t, err, &skipped)
				require.Equal(t, 2, skipped.Ticks)
			}
		}
		require.ElementsMatch(t, []string{
			"03:00:00: schedule: 2 ticks skipped: the run of 2000-01-01T01:00:00Z was still under way",
			"06:00:00: schedule: 2 ticks skipped: the run of 2000-01-01T04:00:00Z was still under way",
		}, told, "by whoever ran it")
	})
}

// What a run that was cut short leaves behind is for others to take up.
func TestATickThatCameWhileARunWasCutShortIsLeftToOthers(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		a := s.run("a", Options{Jitter: -1}, func(ctx context.Context, _ Tick) error { <-ctx.Done(); return context.Cause(ctx) })
		s.run("b", Options{Jitter: 10 * time.Second, Now: func() time.Time { return time.Now().Add(-time.Second) }}, nil)
		s.until(2*time.Hour + time.Minute)
		a.stop(errStop)
		require.Equal(t, errStop, a.ended())
		require.Empty(t, a.told())
		s.until(2*time.Hour + 2*time.Minute)
		require.Equal(t, []string{"01:00:00", "02:00:00"}, s.ticks()[1:], "after that of midnight, by the clock of b")
	})
}

func TestWithAtLeastOnceATickThatComesWhileTheJobRunsIsLate(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		slow := func(ctx context.Context, _ Tick) error { time.Sleep(70 * time.Minute); return ctx.Err() }
		for _, owner := range []string{"a", "b"} {
			s.run(owner, Options{AtLeastOnce: true, StartWithin: time.Hour}, slow)
		}
		s.until(5 * time.Hour)
		require.Equal(t, []string{"01:00:00", "02:00:00", "03:00:00", "04:00:00"}, s.ticks())
		require.Equal(t, 1, s.most)
	})
}

// The mark can be set, and its reply lost, and still the tick is not lost.
func TestTrap_T13_ALostReplyOfTheMarkDoesNotLoseTheTick(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
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
		s.until(61 * time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
		require.Equal(t, 3, lost)
		require.Empty(t, p.told())
	})
}

// Where it stays unknown whether the mark was set, the job is not started, and
// somebody hears of it.
func TestAMarkThatIsNotCertain(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		remove := s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			err := apply()
			if call.Op == leasingtest.Acquire && call.Name != name {
				return leasing.ErrUnavailable
			}
			return err
		})
		a := s.run("a", Options{}, nil)
		b := s.run("b", Options{Jitter: 20 * time.Second}, nil)
		s.until(62 * time.Minute)
		remove()
		s.until(2*time.Hour - time.Minute)
		require.Empty(t, s.ticks())
		told := append(a.told(), b.told()...)
		require.Len(t, told, 1, "by the one who does not know")
		require.Contains(t, told[0], "tick missed")
		s.until(121 * time.Minute)
		require.Equal(t, []string{"02:00:00"}, s.ticks())
	})
}

// Also by one who is being shut down at that moment.
func TestAMarkThatIsNotCertainAtAShutdown(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			err := apply()
			if call.Op == leasingtest.Acquire && call.Name != name {
				return leasing.ErrUnavailable
			}
			return err
		})
		p := s.run("a", Options{}, nil)
		s.until(time.Hour + 5*time.Second)
		p.stop(errStop)
		require.Equal(t, errStop, p.ended())
		var missed *MissedError
		require.ErrorAs(t, p.lastError(), &missed)
	})
}

// A release that hangs does not keep the job from its start.
func TestTheReleaseOfTheMarkIsNotWaitedForLong(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.provider.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Release && call.Name != name {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return apply()
		})
		s.run("a", Options{Jitter: -1}, nil)
		s.until(time.Hour + 3*time.Second)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
		s.until(time.Hour + time.Minute)
	})
}

// A request to mark that had no effect costs nothing but time.
func TestAMarkThatCouldNotBeSet(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		heal := s.partition(func(call leasingtest.Call) bool { return call.Op == leasingtest.Acquire && call.Name != name })
		p := s.run("a", Options{}, nil)
		s.until(65 * time.Minute)
		require.Empty(t, s.ticks())
		heal()
		s.until(67 * time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
		require.Empty(t, p.told(), "it was started after all")
	})
}

// Between the mark and the start the lease is looked at once more: whoever
// sets a mark after the lease has gone to another must not start.
func TestALeaseLostWhileTheMarkIsSet(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		a := s.run("a", Options{Jitter: -1}, nil)
		slow := true
		s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			switch {
			case call.Op == leasingtest.Renew:
				return leasing.ErrUnavailable
			case call.Op == leasingtest.Acquire && call.Name != name && slow:
				slow = false
				time.Sleep(5 * time.Second) // on its way, longer than the lease lives
				time.Sleep(2 * ttl)
			}
			return apply()
		})
		s.until(time.Hour + time.Second)
		s.run("b", Options{CatchUp: true, Jitter: -1}, nil)
		s.until(90 * time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
		require.Equal(t, "b", s.started()[0].owner)
		require.NotEmpty(t, a.told())
		require.ErrorIs(t, a.lastError(), leasing.ErrLost)
	})
}

// lapsed is a lease that knows by its clocks that it is lost, before its context
// has ended: in the moment in which a machine wakes up.
type lapsed struct{ leasing.Lease }

func (lapsed) Err() error { return &leasing.LostError{Reason: leasing.LostExpired} }

// stopping is a lease under which the work is cancelled when it is looked at.
type stopping struct {
	leasing.Lease
	stop func()
}

func (l stopping) Err() error { l.stop(); return nil }

func TestATickThatCannotBeStartedOnceItIsMarkedIsMissed(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		m := s.manager("a")
		options, err := Options{Name: name, Every: time.Hour, OnError: func(time.Time, error) {}}.withDefaults(m.Capabilities())
		require.NoError(t, err)
		r := &runner{Options: options, manager: m, job: func(context.Context, Tick) error {
			t.Error("started")
			return nil
		}}
		lease, err := m.TryAcquire(t.Context(), name, leasing.AcquireOptions{})
		require.NoError(t, err)
		defer lease.Release(t.Context())
		var missed *MissedError

		result := r.turn(t.Context(), Tick{At: s.began.Add(time.Hour), Lease: lapsed{lease}})
		require.True(t, result.done)
		require.ErrorAs(t, result.failure, &missed)
		require.ErrorIs(t, missed, leasing.ErrLost)

		ctx, cancel := context.WithCancelCause(t.Context())
		result = r.turn(ctx, Tick{At: s.began.Add(2 * time.Hour), Lease: stopping{lease, func() { cancel(errStop) }}})
		require.True(t, result.done)
		require.ErrorAs(t, result.failure, &missed)
		require.ErrorIs(t, missed, errStop)
	})
}

func TestTheJobsContextTellsWhyItEnded(t *testing.T) {
	causes := func(s *stage, options Options) (*process, <-chan error) {
		causes := make(chan error, 1)
		return s.run("a", options, func(ctx context.Context, _ Tick) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return ctx.Err()
		}), causes
	}
	onStage(t, func(t *testing.T, s *stage) {
		p, cause := causes(s, Options{})
		s.until(61 * time.Minute)
		_, err := s.manager("operator").Break(t.Context(), name, leasing.BreakOptions{Immediate: true})
		require.NoError(t, err)
		require.ErrorIs(t, <-cause, leasing.ErrLost)
		synctest.Wait()
		require.ErrorIs(t, p.lastError(), leasing.ErrLost)
		require.Len(t, p.told(), 1)
		require.Equal(t, 1, strings.Count(p.told()[0], "lease lost: broken"), "told once")
	})
	onStage(t, func(t *testing.T, s *stage) {
		p, cause := causes(s, Options{Timeout: 10 * time.Minute})
		s.until(69 * time.Minute)
		require.Empty(t, cause)
		s.until(71 * time.Minute)
		require.Equal(t, ErrTimeout, <-cause)
		require.ErrorIs(t, p.lastError(), ErrTimeout)
		require.ErrorIs(t, p.lastError(), context.DeadlineExceeded)
		s.until(131 * time.Minute)
		require.Len(t, s.ticks(), 2, "and the next tick is run")
	})
	onStage(t, func(t *testing.T, s *stage) {
		p, cause := causes(s, Options{})
		s.until(61 * time.Minute)
		p.stop(errStop)
		require.Equal(t, errStop, <-cause)
		require.Equal(t, errStop, p.ended())
		require.Empty(t, p.told(), "that it was stopped is no error of the job")
	})
}

// The lease is kept until the job has returned, although its context has ended.
func TestTrap_T59_RunWaitsForTheJobAndKeepsTheLease(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		p := s.run("a", Options{AtLeastOnce: true, Timeout: time.Minute}, func(ctx context.Context, _ Tick) error {
			<-ctx.Done()
			time.Sleep(10 * ttl) // cleaning up
			return nil
		})
		s.run("b", Options{AtLeastOnce: true, Jitter: 20 * time.Second}, nil)
		s.until(time.Hour + 30*time.Second)
		owner := s.record(name).Owner
		p.stop(errStop)
		s.until(time.Hour + 30*time.Second + 10*ttl - time.Millisecond)
		require.Equal(t, owner, s.record(name).Owner)
		if owner == "a" {
			require.Equal(t, errStop, p.ended())
		}
		s.until(2*time.Hour - time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
		require.Equal(t, 1, s.most)
	})
}

func TestErrorsOfTheJobAreToldAndTheScheduleGoesOn(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
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
		s.until(61 * time.Minute)
		require.Equal(t, errBoom, p.lastError(), "as it is")
		require.False(t, s.record(name).Held)
		s.until(121 * time.Minute)
		var panicked *PanicError
		require.ErrorAs(t, p.lastError(), &panicked)
		require.Equal(t, "a nil map, say", panicked.Value)
		require.Contains(t, string(panicked.Stack), "TestErrorsOfTheJobAreTold")
		require.EqualError(t, panicked, "schedule: the job panicked: a nil map, say")
		require.False(t, s.record(name).Held)
		s.until(181 * time.Minute)
		require.ErrorIs(t, p.lastError(), errBoom, "the value of a panic, if it is an error")
		s.until(241 * time.Minute)
		require.Len(t, s.ticks(), 4)
		require.Len(t, p.told(), 3)
	})
}

func TestARefusedReleaseIsTold(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		p := s.run("a", Options{}, func(context.Context, Tick) error { return errBoom })
		s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Release && call.Name == name {
				return leasing.ErrDenied
			}
			return apply()
		})
		s.until(61 * time.Minute)
		require.ErrorIs(t, p.lastError(), errBoom)
		require.ErrorIs(t, p.lastError(), leasing.ErrDenied)
	})
}

// With AtLeastOnce a job that is done but can't be marked may run again.
func TestAMarkThatCouldNotBeSetAfterTheJobIsTold(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		heal := s.partition(func(call leasingtest.Call) bool { return call.Op == leasingtest.Acquire && call.Name != name })
		p := s.run("a", Options{AtLeastOnce: true, Jitter: -1}, nil)
		s.until(time.Hour + 11*time.Second)
		require.ErrorIs(t, p.lastError(), leasing.ErrUnavailable)
		require.ErrorContains(t, p.lastError(), "the job may run again")
		heal()
		s.run("b", Options{AtLeastOnce: true, CatchUp: true}, nil)
		s.until(time.Hour + time.Minute)
		require.Equal(t, []string{"01:00:00", "01:00:00"}, s.ticks())
	})
}

// Without a mark the run of an ended process is done again, with it it is not.
func TestAtLeastOnceMarksAlthoughItIsBeingShutDown(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		p := s.run("a", Options{AtLeastOnce: true, Jitter: -1}, func(ctx context.Context, _ Tick) error { <-ctx.Done(); return nil })
		s.until(time.Hour + time.Second)
		p.stop(errStop)
		require.Equal(t, errStop, p.ended())
		require.NotZero(t, s.record(s.markOf(time.Hour)).Token)
	})
}

func TestRunEndsWhenNextHasNoMore(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		last := s.began.Add(2 * time.Hour)
		p := s.run("a", Options{Next: func(t time.Time) time.Time {
			if t = t.Truncate(time.Hour).Add(time.Hour); t.After(last) {
				return time.Time{}
			}
			return t
		}}, nil)
		s.until(121 * time.Minute)
		require.NoError(t, p.ended())
		require.Equal(t, []string{"01:00:00", "02:00:00"}, s.ticks())
	})
}

// At 02:30 in Berlin there is an hour without that time, and one with two.
func TestATimetableThatFollowsTheCalendarOfAPlace(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		berlin, err := time.LoadLocation("Europe/Berlin")
		require.NoError(t, err)
		daily := func(t time.Time) time.Time {
			t = t.In(berlin)
			next := time.Date(t.Year(), t.Month(), t.Day(), 2, 30, 0, 0, berlin)
			if !next.After(t) {
				next = time.Date(t.Year(), t.Month(), t.Day()+1, 2, 30, 0, 0, berlin)
			}
			return next
		}
		for _, month := range []time.Month{time.March, time.October} {
			eve := time.Date(2000, month, map[time.Month]int{time.March: 24, time.October: 27}[month], 12, 0, 0, 0, time.UTC)
			time.Sleep(time.Until(eve))
			before := len(s.started())
			var processes []*process
			for _, zone := range []*time.Location{time.UTC, berlin, time.FixedZone("elsewhere", -7*3600)} {
				processes = append(processes, s.run(zone.String(), Options{Next: daily, Now: func() time.Time { return time.Now().In(zone) }}, nil))
			}
			time.Sleep(4 * 24 * time.Hour)
			days := map[string]int{}
			for _, start := range s.started()[before:] {
				require.Equal(t, time.UTC, start.tick.Location())
				days[start.tick.In(berlin).Format("Jan 02")]++
			}
			require.Equal(t, map[time.Month]map[string]int{
				time.March:   {"Mar 25": 1, "Mar 26": 1, "Mar 27": 1, "Mar 28": 1},
				time.October: {"Oct 28": 1, "Oct 29": 1, "Oct 30": 1, "Oct 31": 1},
			}[month], days)
			for _, p := range processes {
				p.stop(errStop)
				require.Equal(t, errStop, p.ended())
			}
		}
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
		"Options.Jitter":          with(func(o *Options) { o.Jitter = defaultStartWithin }),
		"Options.Timeout":         with(func(o *Options) { o.Timeout = -1 }),
		"Options.Lease.WaitLimit": with(func(o *Options) { o.Lease.WaitLimit = leasing.NoWait }),
		"Options.Next 1": with(func(o *Options) {
			o.Every, o.Next = 0, func(time.Time) time.Time { return time.Unix(1, 0) }
		}),
		"Options.Next 2": with(func(o *Options) {
			o.Every, o.Next = 0, func(t time.Time) time.Time { return t.Add(time.Hour) }
		}),
		// What the manager judges comes at once too, not with the first tick.
		"AcquireOptions.RenewCadence": with(func(o *Options) { o.Lease = leasing.AcquireOptions{RenewCadence: time.Hour} }),
	} {
		err := Run(t.Context(), manager, options, job)
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
	_, err := longest.withDefaults(manager.Capabilities())
	require.NoError(t, err)
}

func TestRunEndsAtOnceWhereItMayNotWork(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		for _, refusal := range []error{leasing.ErrDenied, leasing.ErrSetup} {
			remove := s.provider.Use(leasingtest.Fail(leasingtest.Inspect, 1, refusal))
			p := s.run("a", Options{}, nil)
			remove()
			select {
			case <-p.done:
			default:
				t.Fatal("it waits for the night")
			}
			require.ErrorIs(t, p.err, refusal)
		}
		// That the backend does not answer may pass.
		s.provider.Use(leasingtest.Fail(leasingtest.Inspect, 1, leasing.ErrUnavailable))
		s.run("b", Options{}, nil)
		s.until(61 * time.Minute)
		require.Equal(t, []string{"01:00:00"}, s.ticks())
	})
}

func TestRunEndsWhenItMayNoLongerWork(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		p := s.run("a", Options{}, nil)
		s.provider.Use(leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, leasing.ErrDenied))
		s.until(61 * time.Minute)
		require.ErrorIs(t, p.ended(), leasing.ErrDenied)
	})
}

func TestRunEndsWithItsManager(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		p := s.run("a", Options{Every: 24 * time.Hour}, nil)
		require.NoError(t, p.manager.Close(t.Context()))
		time.Sleep(maxNap)
		synctest.Wait()
		require.ErrorIs(t, p.ended(), leasing.ErrClosed, "between ticks, within a nap")
	})
	for _, atLeastOnce := range []bool{false, true} {
		onStage(t, func(t *testing.T, s *stage) {
			p := s.run("a", Options{AtLeastOnce: atLeastOnce}, func(ctx context.Context, _ Tick) error { <-ctx.Done(); return context.Cause(ctx) })
			s.until(61 * time.Minute)
			require.NoError(t, p.manager.Close(t.Context()))
			time.Sleep(time.Second)
			synctest.Wait()
			require.ErrorIs(t, p.ended(), leasing.ErrClosed, "in the middle of a run")
			require.False(t, s.record(name).Held)
		})
	}
}

func TestShutdownWhileAnotherProcessHasTheTick(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		p := s.run("a", Options{}, nil)
		s.until(time.Hour - time.Second)
		s.crashed(name)
		s.until(time.Hour + 2*time.Second)
		p.stop(errStop)
		synctest.Wait()
		require.Equal(t, errStop, p.ended())
		require.Empty(t, p.told())
	})
}

func TestTheLeaseShowsTheTick(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		metadata := map[string]string{"url": "http://node-1"}
		s.run("a", Options{Lease: leasing.AcquireOptions{Metadata: metadata, TTL: time.Minute}}, func(_ context.Context, tick Tick) error {
			require.Equal(t, map[string]string{"url": "http://node-1", "tick": "2000-01-01T01:00:00Z"}, tick.Lease.Metadata())
			require.Equal(t, time.Minute, tick.Lease.TTL())
			return nil
		})
		s.until(61 * time.Minute)
		require.Len(t, s.ticks(), 1)
		require.Equal(t, map[string]string{"url": "http://node-1"}, metadata, "the caller's own is not changed")
	})
}

// For a tick the process that runs it sends six requests, each other one a few.
func TestTheCostOfATick(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.run("a", Options{}, nil)
		s.until(time.Hour - time.Second)
		before := len(s.provider.Calls())
		s.until(61 * time.Minute)
		require.Equal(t, 6, len(s.provider.Calls())-before)
		s.until(2*time.Hour - time.Second)
		require.Equal(t, 6, len(s.provider.Calls())-before, "none in between")

		const others = 9
		for i := range others {
			s.run(fmt.Sprint(i), Options{}, nil)
		}
		before = len(s.provider.Calls())
		s.until(121 * time.Minute)
		require.LessOrEqual(t, len(s.provider.Calls())-before, 6+2*others, "most find the mark; some may come at the same moment")
	})
	onStage(t, func(t *testing.T, s *stage) {
		s.run("a", Options{Jitter: -1}, func(context.Context, Tick) error { time.Sleep(90 * time.Minute); return nil })
		s.run("b", Options{Jitter: 10 * time.Second}, nil)
		s.until(2*time.Hour + time.Minute)
		before := len(s.provider.Calls())
		s.until(2*time.Hour + 21*time.Minute)
		renewals := 0
		for _, call := range s.provider.Calls()[before:] {
			if call.Op == leasingtest.Renew {
				renewals++
			}
		}
		require.LessOrEqual(t, len(s.provider.Calls())-before-renewals, 20*12, "of those who wait for the run before, a few a minute")
	})
}

func TestTheErrorsCanBeToldApart(t *testing.T) {
	require.NoError(t, errors.Unwrap(&PanicError{Value: "text"}))
	require.Equal(t, errBoom, errors.Unwrap(&PanicError{Value: errBoom}))
	require.EqualError(t, &MissedError{Err: errBoom}, "schedule: tick missed: boom")
}
