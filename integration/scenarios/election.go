package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/integration/scenarios/runner"
)

// election puts a leader election under attack, on any backend (`make demo`). Three leaders in turn run into trouble:
//
//   - the first leader is killed (SIGKILL): another takes over when the lease has run out;
//   - the second is paused past its TTL (SIGSTOP): another takes over, and a delayed row of the second is refused. Woken
//     (SIGCONT), it finds its lease lost;
//   - the third is asked to stop: it gives the lease up, and another takes over at once.
//
// The timeline shows who leads, with which token, and for how long it can still trust its lease. The take-over times and the
// checks that have passed follow at the end.
var election = runner.Scenario{
	Name: "election", About: "a leader election under attack, on any backend (make demo)", Sample: "scenarios",
	TTL:     3 * time.Second, // short, so that a dead leader's lease soon runs out
	Control: controlElection,
}

// The kinds of the workers' reports that the scenario reads.
const (
	elected  = "leads"
	wrote    = "writes"          // a row of the ledger
	lost     = "no longer leads" // the lease's context has ended, without a release
	stopping = "finishes its work"
	resigned = "has released the lease"
)

// rowsEach is the number of rows that a leader writes before it is killed, paused or
// stopped: enough to see its lease renewed.
const rowsEach = 6

// electionControl directs the workers of the election.
type electionControl struct {
	*runner.Runner
	checker checker
	rows    [][]any // of the table of take-overs
	wakeUp  string  // how soon the paused leader noticed its loss, as text
}

func controlElection(ctx context.Context, s *runner.Runner) error {
	d := &electionControl{Runner: s, checker: checker{}, rows: [][]any{{"leader", "token", "after", "take-over", "of which after the lease ran out"}}}
	d.Announce("three processes compete for one lease (TTL %v, on %s)", s.TTL, s.Manager.Capabilities().Provider)
	for _, name := range []string{"w1", "w2", "w3"} {
		if err := d.Start(ctx, name, "election"); err != nil {
			return err
		}
	}
	now, err := d.awaitLeader(ctx, 0)
	if err != nil {
		return err
	}
	d.rows = append(d.rows, []any{now.Worker, now.Token, "(the first)", "-", "-"})
	for _, step := range []func(context.Context, runner.Report) (runner.Report, error){d.kill, d.pause, d.stop} {
		if err := d.awaitRows(ctx, now); err != nil {
			return err
		}
		if now, err = step(ctx, now); err != nil {
			return err
		}
	}
	if err := d.awaitRows(ctx, now); err != nil {
		return err
	}
	d.Announce("that was all: everybody may go")
	d.StopAll()
	for d.Running() > 0 {
		if _, err := d.await(ctx, func(r runner.Report) bool { return r.Kind == runner.Exited }); err != nil {
			return err
		}
	}
	return d.check(ctx)
}

// kill kills the leader, which has no chance to release anything.
func (d *electionControl) kill(ctx context.Context, now runner.Report) (runner.Report, error) {
	next, err := d.takeOver(ctx, now, "killed", func() {
		d.Announce("kill -KILL %s", now.Worker)
		d.checker.end(now.Token, time.Now())
		d.Kill(now.Worker)
	})
	return next, errors.Join(err, d.Start(ctx, "w4", "election")) // so that there are three again
}

// stop asks the leader to stop.
func (d *electionControl) stop(ctx context.Context, now runner.Report) (runner.Report, error) {
	return d.takeOver(ctx, now, "stopped", func() {
		d.Announce("%s is asked to stop", now.Worker)
		d.Stop(now.Worker)
	})
}

// pause stops the leader's process for longer than its lease lasts, and then resumes the process.
func (d *electionControl) pause(ctx context.Context, now runner.Report) (runner.Report, error) {
	var paused time.Time
	next, err := d.takeOver(ctx, now, "paused", func() {
		d.Announce("kill -STOP %s", now.Worker)
		paused = time.Now()
		d.Pause(now.Worker)
	})
	if err != nil {
		return next, err
	}
	// Wait until the new leader has shown its token to the ledger.
	if _, err := d.await(ctx, func(r runner.Report) bool {
		return r.Kind == wrote && r.Token == next.Token && r.At.After(paused.Add(d.TTL))
	}); err != nil {
		return next, err
	}
	d.Continue(next.Worker)
	d.Announce("kill -CONT %s: it wakes up and believes that no time has passed", now.Worker)
	woken := time.Now()
	d.Resume(now.Worker)
	d.Continue(now.Worker)
	over, err := d.await(ctx, func(r runner.Report) bool { return r.Kind == lost && r.Token == now.Token })
	if err != nil {
		return next, err
	}
	d.wakeUp = fmt.Sprintf("%s knew %v after it woke up that its lease was lost", now.Worker, over.At.Sub(woken).Round(10*time.Microsecond))
	return next, d.sendLate(ctx, now)
}

// sendLate sends the delayed row of a former leader. The ledger has to refuse the row.
func (d *electionControl) sendLate(ctx context.Context, former runner.Report) error {
	err := d.Data.Do(ctx, "ledger", former.Token, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO ledger (number, token, writer) SELECT COUNT(*) + 1, $1, $2 FROM ledger", former.Token, former.Worker)
		return err
	})
	if !errors.Is(err, leasing.ErrStale) {
		return fmt.Errorf("the late row of %s was not refused as stale: %v", former.Worker, err)
	}
	d.Announce("the late row of %s arrives: %v", former.Worker, err)
	return nil
}

// expiryOf returns the time at which the current lease runs out unless it is renewed. This time may be too early, but is never
// too late.
func (d *electionControl) expiryOf(ctx context.Context, now runner.Report) (time.Time, error) {
	at := time.Now()
	record, err := d.Manager.Inspect(ctx, d.Place.Lease("election"))
	left, known := record.Remaining()
	if !known || d.Manager.Capabilities().Lateness.After(d.TTL) > 0 { // or known only as a bound
		return d.checker[now.Token].trust, err
	}
	return at.Add(left), err
}

// takeOver calls do, which attacks the leader. It then waits for the next leader, and compares the time of the take-over with the
// time at which the lease would have run out.
func (d *electionControl) takeOver(ctx context.Context, before runner.Report, how string, do func()) (next runner.Report, err error) {
	free, err := d.expiryOf(ctx, before)
	if err != nil {
		return next, err
	}
	at := time.Now()
	do()
	if next, err = d.awaitLeader(ctx, before.Token); err != nil {
		return next, err
	}
	beyond := next.At.Sub(free)
	released := how == "stopped"
	after := seconds(beyond)
	switch {
	case released && beyond >= 0:
		return next, fmt.Errorf("%s took over only when the lease would have run out by itself", next.Worker)
	case !released && beyond < 0:
		return next, fmt.Errorf("%s took over %v before the lease had run out", next.Worker, -beyond)
	case released:
		after = "released"
	}
	d.rows = append(d.rows, []any{next.Worker, next.Token, before.Worker + " " + how, seconds(next.At.Sub(at)), after})
	return next, nil
}

func (d *electionControl) awaitLeader(ctx context.Context, after int64) (runner.Report, error) {
	return d.await(ctx, func(r runner.Report) bool { return r.Kind == elected && r.Token > after })
}

// awaitRows waits until the leader has written some rows and has enough trust left that no renewal is due. It leaves the leader
// waiting. A leader that is stopped in the middle of a write would keep its locks in the database (on SQLite the lock of the
// whole file), and a lease does not end such locks.
func (d *electionControl) awaitRows(ctx context.Context, now runner.Report) error {
	rows := 0
	_, err := d.await(ctx, func(r runner.Report) bool {
		if r.Kind != wrote || r.Token != now.Token {
			return false
		}
		rows++
		return rows >= rowsEach && r.Trust >= d.TTL*6/10
	})
	return err
}

// await prints the workers' reports up to the awaited report, and the state of the lease while the workers are silent. All
// workers continue, except a leader whose row was awaited.
func (d *electionControl) await(ctx context.Context, awaited func(runner.Report) bool) (runner.Report, error) {
	for {
		quiet, stop := context.WithTimeoutCause(ctx, d.TTL/4, errQuiet)
		r, err := d.Next(quiet)
		stop()
		switch {
		case errors.Is(err, errQuiet):
			d.showHolder(ctx)
			continue
		case err != nil:
			return r, err
		}
		d.Line(r)
		d.checker.see(r)
		switch {
		case !awaited(r):
			d.Continue(r.Worker)
			continue
		case r.Kind != wrote:
			d.Continue(r.Worker)
		}
		return r, nil
	}
}

var errQuiet = errors.New("no report in time")

// showHolder prints how long the lease of a silent leader still lasts.
func (d *electionControl) showHolder(ctx context.Context) {
	record, err := d.Manager.Inspect(ctx, d.Place.Lease("election"))
	text := "the lease is free"
	left, known := record.Remaining()
	switch {
	case err != nil:
		text = err.Error()
	case record.Held && known:
		text = fmt.Sprintf("%-36s left  %s", "the lease is still "+record.Owner+"'s", runner.Bar(left, d.TTL))
	case record.Held:
		text = "the lease is still " + record.Owner + "'s"
	}
	d.Line(runner.Report{At: time.Now(), Text: text})
}

// check checks the whole run.
func (d *electionControl) check(ctx context.Context) error {
	d.Table(d.rows...)
	closest, err := d.checker.minTrustGap()
	if err != nil {
		return err
	}
	rows, err := d.checker.ledgerHolds(ctx, d.Data)
	if err != nil {
		return err
	}
	d.OK("no two leaders trusted their lease at the same time; at least %v lay between", closest.Round(time.Millisecond))
	d.OK("%s", d.wakeUp)
	d.OK("its late write was refused; the ledger's %d rows bear tokens that never fall", rows)
	return nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }
