package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/integration/scenarios/place"
	"github.com/distributedleasing/leasing/integration/scenarios/runner"
)

// daily kills a process in the middle of the third day's job. Another process starts the job again when the lease of the dead
// process has run out. Look at the table at the end: only the third tick was started by two processes.
var daily = runner.Scenario{
	Name: "daily", About: "a scheduled job that runs once for each of its times", Sample: "scenarios",
	// The lease of a dead process blocks its tick for less than a day, so that another process can
	// run the job of that tick.
	TTL:     time.Second,
	Control: controlDaily,
}

const (
	oneDay = 4 * time.Second // as in the sample
	days   = 4
	killOn = 3 // the day on which a process is killed in the middle of the job
)

// dailyShow is one run of the scenario.
type dailyShow struct {
	*runner.Runner
	ticks   []time.Time
	started map[string][]string // workers, by tick
	killed  string
}

func controlDaily(ctx context.Context, r *runner.Runner) error {
	s := &dailyShow{Runner: r, started: map[string][]string{}}
	s.Announce("three processes run a job every %v", oneDay)
	if err := s.RunWorkers(ctx, 3, s.react, "daily"); err != nil {
		return err
	}
	done := map[string]string{}
	if err := place.Each(ctx, s.Data.DB, "SELECT tick, worker FROM daily", func(row *sql.Rows) error {
		var tick, by string
		err := row.Scan(&tick, &by)
		done[tick] = by
		return err
	}); err != nil {
		return err
	}
	return s.check(done)
}

func (s *dailyShow) react(r runner.Report) (goOn bool) {
	switch r.Kind {
	case "runs the job":
		at := stamp(r.Tick)
		if s.started[at] == nil {
			s.ticks = append(s.ticks, r.Tick)
		}
		s.started[at] = append(s.started[at], r.Worker)
		if len(s.ticks) == killOn && s.killed == "" {
			s.killed = r.Worker
			s.Announce("kill -KILL %s, in the middle of the job", r.Worker)
			s.Kill(r.Worker)
			return false
		}
	case "has done the work":
		if len(s.ticks) == days {
			s.Announce("that was all: everybody may go")
			s.StopAll()
		}
	}
	return true
}

// check compares the jobs that were started with those that were done.
func (s *dailyShow) check(done map[string]string) error {
	rows := [][]any{{"tick", "started by", "done by"}}
	for i, tick := range s.ticks {
		at := stamp(tick)
		by := s.started[at]
		rows = append(rows, []any{tick.UTC().Format(time.TimeOnly), by, done[at]})
		if i+1 == killOn {
			by = by[1:] // the first was killed
		}
		switch {
		case !tick.Equal(s.ticks[0].Add(time.Duration(i) * oneDay)):
			return fmt.Errorf("a tick was left out before %s", at)
		case len(by) != 1 || done[at] != by[0]:
			return fmt.Errorf("%s: the job was started by %v, and done by %q; %s was killed", at, s.started[at], done[at], s.killed)
		}
	}
	s.Table(rows...)
	if len(s.ticks) != days || len(done) != days {
		return fmt.Errorf("%d ticks were begun and %d were done, of %d", len(s.ticks), len(done), days)
	}
	s.OK("no tick was left out, and each was done exactly once")
	s.OK("no job was started twice, but the one that was cut short")
	return nil
}

// stamp formats a tick as in the database table daily.
func stamp(tick time.Time) string { return tick.UTC().Format(time.RFC3339) }
