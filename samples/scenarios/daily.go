package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/recipes/schedule"
	"github.com/distributedleasing/leasing/samples/internal/place"
	"github.com/distributedleasing/leasing/samples/internal/runner"
)

// daily is a job that runs on a timetable, once for each of its times although
// several processes run it: example 1 of leases, "leader election for scheduled
// jobs". Its days have 4 seconds.
//
// Three processes follow the same timetable. At each tick one of them, whichever
// comes first, runs the job; the others find the tick taken. On the third day the
// one that runs the job is killed in the middle. Since the schedule is to run
// AtLeastOnce, another starts the job again for that tick, when the lease of the
// dead process has run out. (Without that option each job is started once, and
// a job that was cut short is not repeated.)
//
// Look at the table at the end: one process per tick, except the third. No schedule
// can promise that the work is done exactly once, since a process may die
// between the end of its work and the moment in which it reports that end. The journal that
// the job writes to can promise this: it takes each tick once, and checks the token.
var daily = runner.Scenario{
	Name: "daily", About: "a scheduled job that runs once for each of its times",
	// A dead process keeps the others from its tick for less than a day, so that
	// another process can run the job of that tick.
	TTL:     time.Second,
	Control: controlDaily, Work: workDaily,
}

const (
	dailyJob = "jobs/daily-maintenance"
	oneDay   = 4 * time.Second
	days     = 4
	// killOn is the day on which a process is killed in the middle of the job.
	killOn = 3
)

// The kinds of the workers' reports. Number is the tick, in seconds since 1970.
const (
	begins = "begins" // the job; waits in the middle of it
	did    = "did"    // the work; the journal has taken it
)

func workDaily(ctx context.Context, w *runner.Worker) error {
	err := schedule.Run(ctx, w.Manager, schedule.Options{
		Name:        dailyJob,
		Every:       oneDay,
		CatchUp:     true, // the first day has begun
		Jitter:      oneDay / 40,
		AtLeastOnce: true,
		OnError:     func(tick time.Time, err error) { w.Say("", tick.Unix(), "%s: %v", clock(tick), err) },
	}, func(ctx context.Context, tick schedule.Tick) error { return maintain(ctx, w, tick) })
	return unlessStopped(ctx, err)
}

// unlessStopped returns an error unless it came of the end of ctx.
func unlessStopped(ctx context.Context, err error) error {
	if errors.Is(err, context.Cause(ctx)) {
		err = nil
	}
	return err
}

// maintain is the job. It is started again if a process dies in the middle of it,
// so it looks whether its work is done, and notes what it has done along with it:
// here the note is all of the work.
func maintain(ctx context.Context, w *runner.Worker, tick schedule.Tick) error {
	w.SayAndWait(begins, tick.At.Unix(), "runs the job of %s, token %d", clock(tick.At), tick.Token())
	first, err := place.Journal{Data: w.Data}.Note(ctx, dailyJob, tick.Token(), clock(tick.At), w.Name)
	switch {
	case err != nil:
		return err
	case first:
		w.Say(did, tick.At.Unix(), "has done the work of %s", clock(tick.At))
	default:
		w.Say("", tick.At.Unix(), "finds the work of %s done already", clock(tick.At))
	}
	return nil
}

func controlDaily(ctx context.Context, s *runner.Runner) error {
	book := place.Journal{Data: s.Data}
	if err := book.Create(ctx); err != nil {
		return err
	}
	s.Announce("three processes run a job every %v", oneDay)
	var ticks []time.Time
	started, killed := map[string][]string{}, "" // workers, by tick
	if err := s.RunWorkers(ctx, 3, "", func(r runner.Report) {
		tick := time.Unix(r.Number, 0)
		switch r.Kind {
		case begins:
			if started[clock(tick)] == nil {
				ticks = append(ticks, tick)
			}
			started[clock(tick)] = append(started[clock(tick)], r.Worker)
			if len(ticks) != killOn || killed != "" {
				s.Continue(r.Worker)
				return
			}
			killed = r.Worker
			s.Announce("kill -KILL %s, in the middle of the job", r.Worker)
			s.Kill(r.Worker)
		case did:
			if len(ticks) == days {
				s.Announce("that was all: everybody may go")
				s.StopAll()
			}
		}
	}); err != nil {
		return err
	}
	done, err := book.All(ctx)
	if err != nil {
		return err
	}
	rows := [][]any{{"tick", "started by", "done by"}}
	for i, tick := range ticks {
		at := clock(tick)
		by := started[at]
		rows = append(rows, []any{at, by, done[at]})
		if i+1 == killOn {
			by = by[1:] // the first was killed
		}
		switch {
		case !tick.Equal(ticks[0].Add(time.Duration(i) * oneDay)):
			return fmt.Errorf("a tick was left out before %s", at)
		case len(by) != 1 || done[at] != by[0]:
			return fmt.Errorf("%s: the job was started by %v, and done by %q; %s was killed", at, started[at], done[at], killed)
		}
	}
	s.Table(rows...)
	if len(ticks) != days || len(done) != days {
		return fmt.Errorf("%d ticks were begun and %d were done, of %d", len(ticks), len(done), days)
	}
	s.OK("no tick was left out, and each was done exactly once")
	s.OK("no job was started twice, but the one that was cut short")
	return nil
}

func clock(tick time.Time) string { return tick.UTC().Format("15:04:05") }
