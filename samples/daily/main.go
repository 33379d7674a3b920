// Command daily shows a job that runs on a timetable, once for each of its times
// although several processes run it: example 1 of leases, "leader election for
// scheduled jobs". Its days have 4 seconds.
//
//	go run ./daily                                 # on a temporary SQLite file, 8 to 13 seconds
//	go run ./daily -url redis://127.0.0.1:6379/0   # or postgres://..., sqlite:///path
//
// Three processes follow the same timetable. At each tick one of them, whichever
// comes first, takes it and runs the job; the others find it taken. On the third
// day the one that runs the job is killed in the middle. Since the schedule is to
// run AtLeastOnce, another starts the job again for that tick, when the lease of
// the dead process has run out. (Without that option each job is started once, and
// what was cut short is not repeated.)
//
// Look at the table at the end: one process per tick, but for the third. That the
// work is done exactly once no schedule can promise, since a process may die
// between the end of its work and the moment in which it says so. The journal that
// the job writes to can: it takes each tick once, and checks the token.
//
// The exit code is 0 only if no tick was left out, no job was started twice but
// the one that was cut short, and each tick was done exactly once. worker.go is
// what an application would have.
package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/distributedleasing/leasing/samples/internal/journal"
	"github.com/distributedleasing/leasing/samples/internal/show"
)

const (
	processes = 3
	days      = 4
	// killOn is the day on which a process is killed in the middle of the job,
	// counted from 1.
	killOn = 3
)

func main() { show.Main("daily", play, work) }

// play starts the processes and kills one of them.
func play(ctx context.Context, s *show.Show) error {
	book, err := journal.Open(s.Place)
	if err != nil {
		return err
	}
	defer book.Close()
	if err := book.Create(ctx); err != nil {
		return err
	}
	s.Line("", "%d processes run a job every %v (lease of %v, on %v)", processes, every, ttl, s.Place)
	for i := range processes {
		if err := s.Start(fmt.Sprintf("w%d", i+1), ""); err != nil {
			return err
		}
	}
	story := story{show: s}
	for s.Running() > 0 {
		r, err := s.Next(ctx)
		if err != nil {
			return err
		}
		if err := story.on(r); err != nil {
			return err
		}
	}
	return story.judge(ctx, book)
}

// day is what has happened at one tick.
type day struct {
	tick   time.Time
	begun  []string // workers that were started for it
	done   []string // workers whose work the journal has taken
	killed string
}

// story is what has happened so far.
type story struct {
	show *show.Show
	days []*day
	over bool // everybody was dismissed
}

// on prints a report and answers it.
func (t *story) on(r show.Report) error {
	switch r.Kind {
	case begins:
		return t.begin(r)
	case did:
		d := t.day(r)
		d.done = append(d.done, r.Worker)
		t.show.Line(r.Worker, "has done the work of %s", clock(d.tick))
		if len(t.days) == days && !t.over {
			t.over = true
			return t.dismiss()
		}
	case again:
		t.show.Line(r.Worker, "finds the work of %s done already", clock(t.day(r).tick))
	case trouble:
		t.show.Line(r.Worker, "%s: %s", clock(tickOf(r)), r.Text)
	case show.Exited:
		t.show.Line(r.Worker, "is gone: %s", r.Text)
	}
	return nil
}

// begin lets a job run, or kills the process that runs it.
func (t *story) begin(r show.Report) error {
	d := t.day(r)
	d.begun = append(d.begun, r.Worker)
	t.show.Line(r.Worker, "runs the job of %s, token %d", clock(d.tick), r.Token)
	if len(t.days) != killOn || d.killed != "" {
		return t.show.Cue(r.Worker)
	}
	d.killed = r.Worker
	t.show.Act("kill -KILL %s, in the middle of the job", r.Worker)
	return t.show.Kill(r.Worker)
}

// day returns the day of the report's tick.
func (t *story) day(r show.Report) *day {
	tick := tickOf(r)
	for _, d := range t.days {
		if d.tick.Equal(tick) {
			return d
		}
	}
	d := &day{tick: tick}
	t.days = append(t.days, d)
	return d
}

// dismiss ends the play.
func (t *story) dismiss() error {
	t.show.Act("that was the last day: everybody may go")
	for i := range processes {
		worker := fmt.Sprintf("w%d", i+1)
		if worker == t.days[killOn-1].killed {
			continue
		}
		if err := t.show.Dismiss(worker); err != nil {
			return err
		}
	}
	return nil
}

// judge checks each day.
func (t *story) judge(ctx context.Context, book journal.Journal) error {
	t.table()
	noted, err := book.All(ctx)
	if err != nil {
		return err
	}
	if len(t.days) != days || len(noted) != days {
		return fmt.Errorf("%d ticks were begun and %d were done, of %d", len(t.days), len(noted), days)
	}
	for i, d := range t.days {
		if want := t.days[0].tick.Add(time.Duration(i) * every); !d.tick.Equal(want) {
			return fmt.Errorf("the tick of %s was left out", clock(want))
		}
		if err := d.check(i == killOn-1, noted); err != nil {
			return fmt.Errorf("%s: %w", clock(d.tick), err)
		}
	}
	t.show.OK("no tick was left out, and each was done exactly once")
	t.show.OK("no job was started twice, but the one that was cut short")
	return nil
}

func (d *day) check(cutShort bool, noted map[string]string) error {
	starts := 1
	if cutShort {
		starts = 2
	}
	switch {
	case len(d.begun) != starts:
		return fmt.Errorf("the job was started %d times, not %d: by %v", len(d.begun), starts, d.begun)
	case cutShort && d.begun[1] == d.killed:
		return fmt.Errorf("%s was killed, and started the job again", d.killed)
	case len(d.done) != 1 || noted[tickName(d.tick)] != d.done[0]:
		return fmt.Errorf("done by %v; the journal says: %q", d.done, noted[tickName(d.tick)])
	}
	return nil
}

// table prints who did what.
func (t *story) table() {
	_, _ = fmt.Fprintln(t.show.Out())
	table := tabwriter.NewWriter(t.show.Out(), 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "tick\tstarted by\tkilled\tdone by")
	for _, d := range t.days {
		_, _ = fmt.Fprintf(table, "%s\t%v\t%s\t%v\n", clock(d.tick), d.begun, d.killed, d.done)
	}
	_ = table.Flush()
	_, _ = fmt.Fprintln(t.show.Out())
}

func tickOf(r show.Report) time.Time { return time.Unix(r.Number, 0).UTC() }

func clock(tick time.Time) string { return tick.Format("15:04:05") }
