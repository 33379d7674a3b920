package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/samples/internal/runner"
)

// migrate is schema migrations that many actors start at the same time, and that
// one of them runs: example 3 of leases, "serialising schema migrations".
//
// Five processes are rolled out together, and each of them brings the schema up
// to date before it begins. The holder of the lease runs the steps that are
// missing; the others wait for the lease. The first holder is killed half-way through a
// step. When its lease has run out the next holder finds the steps that are done,
// runs the others, and later holders find every step done.
//
// Look at two things. Each step runs in one transaction with the note that it has
// run, so the half step of the dead process leaves nothing behind: this needs a
// database that can undo CREATE and ALTER, like PostgreSQL and SQLite. And the
// transaction begins with the fence, so the step of a process that was paused for
// longer than its lease would be refused.
//
// The lease needs no TTL as long as the longest migration: it is renewed, and the
// TTL says only how long the others wait for a dead holder. On SQLite keep the
// leases in a file of their own: a step locks the whole file, and renewals wait.
var migrate = runner.Scenario{
	Name: "migrate", About: "schema migrations that run once; one actor is killed in the middle of a step",
	TTL:     2 * time.Second,
	Control: controlMigrate, Work: workMigrate,
}

const (
	actors = 5
	// killIn is the step in which the first actor is killed, counted from 1.
	killIn = 3
)

// steps are the migrations, each with its description and its SQL. None of them can run twice.
var steps = [][2]string{
	{"create the outbox", "CREATE TABLE outbox (id bigint PRIMARY KEY, payload text NOT NULL)"},
	{"add a column for the topic", "ALTER TABLE outbox ADD COLUMN topic text NOT NULL DEFAULT ''"},
	{"create the inbox", "CREATE TABLE inbox (id bigint PRIMARY KEY, handled boolean NOT NULL)"},
	{"split topics into name and version", "ALTER TABLE outbox RENAME COLUMN topic TO topic_name"},
	{"add a column for the topic's version", "ALTER TABLE outbox ADD COLUMN topic_version integer NOT NULL DEFAULT 1"},
}

// The kinds of the workers' reports.
const (
	running = "running" // step Number; waits in the middle of it
	idle    = "idle"    // has the lease, and nothing to do
)

// workMigrate waits for the lease, and waits again when the lease was lost: in that case
// the step was rolled back.
func workMigrate(ctx context.Context, w *runner.Worker) (err error) {
	since := time.Now()
	for err = leasing.ErrLost; errors.Is(err, leasing.ErrLost); {
		err = w.Manager.Do(ctx, "schema/migrations/outbox", func(ctx context.Context, lease *leasing.Lease) error {
			return runMissing(ctx, w, lease, time.Since(since))
		})
	}
	return err
}

// runMissing runs the steps that are missing.
func runMissing(ctx context.Context, w *runner.Worker, lease *leasing.Lease, waited time.Duration) error {
	version := 0
	if err := w.Data.Do(ctx, "schema", lease.Token(), func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM notes").Scan(&version)
	}); err != nil {
		return err
	}
	if version == len(steps) {
		w.Say(idle, 0, "has nothing to do: version %d; it waited %v", version, waited.Round(time.Millisecond))
		return nil
	}
	w.Say("", 0, "holds the lease, token %d; the schema is at version %d", lease.Token(), version)
	for number := version + 1; number <= len(steps); number++ {
		// ctx ends with the lease, and with it the transaction of a step.
		if err := w.Data.Do(ctx, "schema", lease.Token(), func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, steps[number-1][1]); err != nil {
				return err
			}
			w.SayAndWait(running, int64(number), "")
			_, err := tx.ExecContext(ctx, "INSERT INTO notes (line, number, actor, token) SELECT COUNT(*) + 1, $1, $2, $3 FROM notes", number, w.Name, lease.Token())
			return err
		}); err != nil {
			return err
		}
		w.Say("", 0, "has run step %d: %s", number, steps[number-1][0])
	}
	return nil
}

func controlMigrate(ctx context.Context, s *runner.Runner) error {
	// No constraint here keeps a step from being noted twice: only lease and fence prevent duplicates.
	if err := s.Data.Create(ctx, "CREATE TABLE notes (line bigint PRIMARY KEY, number bigint NOT NULL, actor text NOT NULL, token bigint NOT NULL)"); err != nil {
		return err
	}
	s.Announce("%d processes want to run %d migrations (lease of %v)", actors, len(steps), s.TTL)
	killed, idlers := "", 0
	if err := s.RunWorkers(ctx, actors, "", func(r runner.Report) {
		switch {
		case r.Kind == running && r.Number == killIn && killed == "":
			killed = r.Worker
			s.Announce("kill -KILL %s, in the middle of step %d", r.Worker, r.Number)
			s.Kill(r.Worker)
		case r.Kind == running:
			s.Continue(r.Worker)
		case r.Kind == idle:
			idlers++
		}
	}); err != nil {
		return err
	}
	var ran, wrong int
	if err := s.Data.QueryRowContext(ctx, `SELECT COUNT(*), COUNT(CASE WHEN number <> line OR token < former THEN 1 END)
		FROM (SELECT line, number, token, LAG(token) OVER (ORDER BY line) AS former FROM notes) AS steps`).Scan(&ran, &wrong); err != nil {
		return err
	}
	if ran != len(steps) || wrong > 0 {
		return fmt.Errorf("%d steps have run, of %d; out of order, or with a stale token: %d", ran, len(steps), wrong)
	}
	var first, heir string // the actors of the step before the kill, and of the step after it
	var rose bool          // the token between them
	if err := s.Data.QueryRowContext(ctx, "SELECT a.actor, b.actor, a.token < b.token FROM notes a, notes b WHERE a.line = $1 AND b.line = $2",
		killIn-1, killIn).Scan(&first, &heir, &rose); err != nil {
		return err
	}
	if first != killed || heir == killed || !rose {
		return fmt.Errorf("%s was killed in step %d: the step before was run by %s, and that one by %s; a greater token: %t", killed, killIn, first, heir, rose)
	}
	if idlers != actors-2 {
		return fmt.Errorf("%d found nothing to do, of %d who lived", idlers, actors-1)
	}
	// These need the tables that the steps make.
	if _, err := s.Data.ExecContext(ctx, `INSERT INTO outbox (id, payload, topic_name, topic_version) VALUES (1, '', 'orders', 2);
		INSERT INTO inbox (id, handled) VALUES (1, true)`); err != nil {
		return fmt.Errorf("the schema is not what the steps make: %w", err)
	}
	s.OK("each of the %d steps has run exactly once, in order", len(steps))
	s.OK("%s was killed in step %d, which left nothing behind; %s ran it", killed, killIn, heir)
	s.OK("the other %d waited, and found nothing to do", idlers)
	return nil
}
