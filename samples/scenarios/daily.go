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
// what was cut short is not repeated.)
//
// Look at the table at the end: one process per tick, but for the third. That the
// work is done exactly once no schedule can promise, since a process may die
// between the end of its work and the moment in which it says so. The journal that
// the job writes to can: it takes each tick once, and checks the token.
var daily = runner.Scenario{
	Name: "daily", About: "a scheduled job that runs once for each of its times",
	// A dead process keeps the others from its tick for less than a day, so that
	// they can run the job for it.
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

// What workers report. Number is the tick, in seconds since 1970.
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

// day is what has happened at one tick.
type day struct {
	tick   time.Time
	begun  []string // workers that were started for it
	done   []string // workers whose work the journal has taken
	killed string
}

func controlDaily(ctx context.Context, s *runner.Runner) error {
	book := place.Journal{Data: s.Data}
	if err := book.Create(ctx); err != nil {
		return err
	}
	s.Announce("three processes run a job every %v", oneDay)
	var all []*day
	if err := s.RunWorkers(ctx, 3, "", func(r runner.Report) error {
		if r.Kind != begins && r.Kind != did {
			return nil
		}
		tick := time.Unix(r.Number, 0)
		if len(all) == 0 || !all[len(all)-1].tick.Equal(tick) {
			all = append(all, &day{tick: tick})
		}
		today := all[len(all)-1]
		switch {
		case r.Kind == did:
			today.done = append(today.done, r.Worker)
			if len(all) == days && len(today.done) == 1 {
				s.Announce("that was all: everybody may go")
				return s.StopAll()
			}
			return nil
		case len(all) == killOn && today.killed == "":
			today.begun, today.killed = append(today.begun, r.Worker), r.Worker
			s.Announce("kill -KILL %s, in the middle of the job", r.Worker)
			s.Kill(r.Worker)
			return nil
		}
		today.begun = append(today.begun, r.Worker)
		return s.Continue(r.Worker)
	}); err != nil {
		return err
	}
	return checkDaily(ctx, s, all, book)
}

// checkDaily checks each day.
func checkDaily(ctx context.Context, s *runner.Runner, all []*day, book place.Journal) error {
	rows := [][]any{{"tick", "started by", "killed", "done by"}}
	for _, d := range all {
		rows = append(rows, []any{clock(d.tick), d.begun, d.killed, d.done})
	}
	s.Table(rows...)
	noted, err := book.All(ctx)
	if err != nil {
		return err
	}
	if len(all) != days || len(noted) != days {
		return fmt.Errorf("%d ticks were begun and %d were done, of %d", len(all), len(noted), days)
	}
	for i, d := range all {
		starts := 1
		if i == killOn-1 {
			starts = 2
		}
		switch {
		case !d.tick.Equal(all[0].tick.Add(time.Duration(i) * oneDay)):
			return fmt.Errorf("a tick was left out before %s", clock(d.tick))
		case len(d.begun) != starts || starts == 2 && d.begun[1] == d.killed:
			return fmt.Errorf("%s: the job was started by %v, and %q was killed", clock(d.tick), d.begun, d.killed)
		case len(d.done) != 1 || noted[clock(d.tick)] != d.done[0]:
			return fmt.Errorf("%s: done by %v; the journal says: %q", clock(d.tick), d.done, noted[clock(d.tick)])
		}
	}
	s.OK("no tick was left out, and each was done exactly once")
	s.OK("no job was started twice, but the one that was cut short")
	return nil
}

func clock(tick time.Time) string { return tick.UTC().Format("15:04:05") }
