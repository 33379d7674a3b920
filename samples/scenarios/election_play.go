package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fatih/color"

	"github.com/distributedleasing/leasing/samples/internal/show"
)

// stint is how many rows a leader writes before something happens to it: enough
// to see its lease renewed.
const stint = 6

// drama directs the workers of the election.
type drama struct {
	*show.Show
	referee *referee
	started int
	rows    [][]any // of the table of take-overs
	wakeUp  string  // how the paused leader fared
}

func playElection(ctx context.Context, s *show.Show) error {
	if err := s.Data.Create(ctx, "CREATE TABLE @ledger (number bigint PRIMARY KEY, token bigint NOT NULL, writer text NOT NULL)"); err != nil {
		return err
	}
	d := &drama{Show: s, referee: newReferee(), rows: [][]any{{"leader", "token", "after", "take-over", "of which after the lease ran out"}}}
	d.Act("three processes compete for the lease %q (TTL %v, on %s)", leader, s.TTL, s.Manager.Capabilities().Provider)
	for range 3 {
		if err := d.enter(); err != nil {
			return err
		}
	}
	now, err := d.awaitLeader(ctx, show.Report{})
	if err != nil {
		return err
	}
	d.rows = append(d.rows, []any{now.Worker, now.Token, "(the first)", "-", "-"})
	for _, scene := range []func(context.Context, show.Report) (show.Report, error){d.kill, d.pause, d.dismiss} {
		if err := d.stint(ctx, now); err != nil {
			return err
		}
		if now, err = scene(ctx, now); err != nil {
			return err
		}
	}
	if err := d.stint(ctx, now); err != nil {
		return err
	}
	if err := dismissAll(s); err != nil {
		return err
	}
	for d.Running() > 0 {
		if _, err := d.await(ctx, "everybody to leave", func(r show.Report) bool { return r.Kind == show.Exited }); err != nil {
			return err
		}
	}
	return d.judge(ctx)
}

// enter starts one more worker.
func (d *drama) enter() error {
	d.started++
	return d.Start(fmt.Sprintf("w%d", d.started), strconv.FormatBool(color.NoColor))
}

// kill kills the leader, which has no chance to release anything.
func (d *drama) kill(ctx context.Context, now show.Report) (next show.Report, err error) {
	d.Act("%s", yellow("kill -KILL "+now.Worker))
	at := time.Now()
	if err := d.Kill(now.Worker); err != nil {
		return next, err
	}
	d.referee.end(now.Token, at)
	free, err := d.runsOut(ctx, now)
	if err != nil {
		return next, err
	}
	if next, err = d.takeOver(ctx, now, at, free, "killed"); err != nil {
		return next, err
	}
	return next, d.enter() // so that there are three again
}

// pause stops the leader for longer than its lease lasts and wakes it up.
func (d *drama) pause(ctx context.Context, now show.Report) (next show.Report, err error) {
	at, err := d.stopAtRest(ctx, now)
	if err != nil {
		return next, err
	}
	free, err := d.runsOut(ctx, now)
	if err != nil {
		return next, err
	}
	if next, err = d.takeOver(ctx, now, at, free, "paused"); err != nil {
		return next, err
	}
	// By now the new leader has shown its token to the ledger.
	if _, err := d.await(ctx, "the pause to outlast the TTL", func(r show.Report) bool {
		return r.Kind == wrote && r.Token == next.Token && r.At.After(at.Add(d.TTL))
	}); err != nil {
		return next, err
	}
	d.Act("%s", yellow("kill -CONT "+now.Worker+": it wakes up and believes that no time has passed"))
	woken := time.Now()
	if err := d.Resume(now.Worker); err != nil {
		return next, err
	}
	over, err := d.await(ctx, now.Worker+" to notice the loss", func(r show.Report) bool { return r.Kind == lost && r.Token == now.Token })
	if err != nil {
		return next, err
	}
	d.wakeUp = fmt.Sprintf("%s knew %v after it woke up that its lease was lost", now.Worker, over.At.Sub(woken).Round(10*time.Microsecond))
	r, err := d.await(ctx, "the late write of "+now.Worker, func(r show.Report) bool {
		return r.Token == now.Token && (r.Kind == stale || r.Kind == late)
	})
	if err == nil && r.Kind == late {
		err = fmt.Errorf("the late write of %s was not refused", now.Worker)
	}
	return next, err
}

// stopAtRest stops the leader between two writes. Stopped in the middle of one
// it would keep its locks in the database, on SQLite the whole file, and nobody
// could take over before it wakes up: no lease helps against that.
func (d *drama) stopAtRest(ctx context.Context, now show.Report) (at time.Time, err error) {
	for range 5 {
		if err := d.awaitFresh(ctx, now); err != nil {
			return at, err
		}
		d.Act("%s", yellow("kill -STOP "+now.Worker))
		at = time.Now()
		if err := d.Pause(now.Worker); err != nil {
			return at, err
		}
		probe, cancel := context.WithTimeout(ctx, d.TTL/3)
		err = d.Data.Exec(probe, "UPDATE @fencing SET token = token") // waits for a write under way
		cancel()
		if err == nil {
			return at, nil
		}
		d.Act("%s", yellow("kill -CONT "+now.Worker+": it was in the middle of a write"))
		if err := d.Resume(now.Worker); err != nil {
			return at, err
		}
	}
	return at, fmt.Errorf("%s was never caught between two writes: %w", now.Worker, err)
}

// dismiss asks the leader to stop.
func (d *drama) dismiss(ctx context.Context, now show.Report) (show.Report, error) {
	free, err := d.runsOut(ctx, now)
	if err != nil {
		return now, err
	}
	d.Act("%s", yellow(now.Worker+" is asked to stop"))
	at := time.Now()
	if err := d.Dismiss(now.Worker); err != nil {
		return now, err
	}
	return d.takeOver(ctx, now, at, free, "stopped")
}

// runsOut returns when the present lease will run out unless it is renewed. It is
// rather too early than too late.
func (d *drama) runsOut(ctx context.Context, now show.Report) (time.Time, error) {
	at := time.Now()
	record, err := d.Manager.Inspect(ctx, d.Place.Lease(leader))
	left, known := record.Remaining()
	if !known || d.Manager.Capabilities().Lateness.After(d.TTL) > 0 { // or no more than a bound
		return d.referee.terms[now.Token].trust, err
	}
	return at.Add(left), err
}

// takeOver waits for the next leader and holds the take-over against the time at
// which the lease would have run out.
func (d *drama) takeOver(ctx context.Context, before show.Report, at, free time.Time, how string) (next show.Report, err error) {
	next, err = d.awaitLeader(ctx, before)
	if err != nil {
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

func (d *drama) awaitLeader(ctx context.Context, after show.Report) (show.Report, error) {
	return d.await(ctx, "a leader", func(r show.Report) bool { return r.Kind == elected && r.Token > after.Token })
}

// stint waits until the leader has written some rows and its lease is fresh.
func (d *drama) stint(ctx context.Context, now show.Report) error {
	for range stint {
		if _, err := d.await(ctx, "a write of "+now.Worker, func(r show.Report) bool { return r.Kind == wrote && r.Token == now.Token }); err != nil {
			return err
		}
	}
	return d.awaitFresh(ctx, now)
}

// awaitFresh waits for a write with so much trust left that no renewal is due.
func (d *drama) awaitFresh(ctx context.Context, now show.Report) error {
	_, err := d.await(ctx, "a write of "+now.Worker+" under a fresh lease", func(r show.Report) bool {
		return r.Kind == wrote && r.Token == now.Token && r.Trust >= d.TTL*6/10
	})
	return err
}

// await shows what the workers report until what is awaited is reported, and
// what the lease is doing while they are silent.
func (d *drama) await(ctx context.Context, what string, awaited func(show.Report) bool) (show.Report, error) {
	limit := 15*time.Second + 5*d.TTL + d.Manager.Capabilities().Lateness.After(d.TTL) // far more than anything takes here
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("waited %v for %s", limit, what))
	defer cancel()
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
		d.referee.see(r)
		if awaited(r) {
			return r, nil
		}
	}
}

var errQuiet = errors.New("nobody says anything")

// showHolder shows how long the lease of a leader that says nothing has to run.
func (d *drama) showHolder(ctx context.Context) {
	record, err := d.Manager.Inspect(ctx, d.Place.Lease(leader))
	text := faint("nobody has the lease")
	if err != nil {
		text = red(err.Error())
	} else if record.Held {
		text = faint("the lease is still " + record.Owner + "'s")
		if left, known := record.Remaining(); known {
			text = faint(fmt.Sprintf("%-36s left  ", "the lease is still "+record.Owner+"'s")) + bar(left, d.TTL)
		}
	}
	d.Line(show.Report{At: time.Now(), Text: text})
}

// judge checks the whole story.
func (d *drama) judge(ctx context.Context) error {
	d.Table(d.rows...)
	closest, err := d.referee.trustApart()
	if err != nil {
		return err
	}
	rows, err := ledgerOf(ctx, d.Data)
	if err != nil {
		return err
	}
	if err := d.referee.ledgerHolds(rows); err != nil {
		return err
	}
	d.OK("no two leaders trusted their lease at the same time; at least %v lay between", closest.Round(time.Millisecond))
	d.OK("%s", d.wakeUp)
	d.OK("its late write was refused; the ledger's %d rows bear tokens that never fall", len(rows))
	return nil
}

// Colours are left out where there is no terminal, and where NO_COLOR is set.
// Workers write to a pipe; the play tells them.
var (
	green  = color.New(color.FgGreen, color.Bold).SprintFunc()
	red    = color.New(color.FgRed, color.Bold).SprintFunc()
	yellow = color.New(color.FgYellow, color.Bold).SprintFunc()
	faint  = color.New(color.Faint).SprintFunc()
)

// bar shows how much of a TTL is left.
func bar(left, ttl time.Duration) string {
	const cells = 15
	full := max(0, min(cells, int((left*cells+ttl/2)/ttl)))
	return fmt.Sprintf("%s%s %.2fs", strings.Repeat("█", full), strings.Repeat("░", cells-full), left.Seconds())
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }
