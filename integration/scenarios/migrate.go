package main

import (
	"context"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/integration/scenarios/runner"
)

// migrate kills the first holder half-way through a step. When its lease has run out the next holder finds the steps that are
// done, and runs the others. Later holders find every step done.
var migrate = runner.Scenario{
	Name: "migrate", About: "schema migrations that run once; one actor is killed in the middle of a step", Sample: "scenarios",
	TTL:     2 * time.Second,
	Control: controlMigrate,
}

const (
	actors     = 5
	migrations = 5 // as in the sample
	killIn     = 3 // the step in which the first actor is killed, counted from 1
)

func controlMigrate(ctx context.Context, s *runner.Runner) error {
	s.Announce("%d processes want to run %d migrations (lease of %v)", actors, migrations, s.TTL)
	killed, idlers := "", 0
	if err := s.RunWorkers(ctx, actors, func(r runner.Report) (goOn bool) {
		switch {
		case r.Kind == "is in the middle of a step" && r.Step == killIn && killed == "":
			killed = r.Worker
			s.Announce("kill -KILL %s, in the middle of step %d", r.Worker, r.Step)
			s.Kill(r.Worker)
			return false
		case r.Kind == "has nothing to do":
			idlers++
		}
		return true
	}, "migrate"); err != nil {
		return err
	}
	return checkMigrate(ctx, s, killed, idlers)
}

// checkMigrate checks the notes that the steps have written, and the schema.
func checkMigrate(ctx context.Context, s *runner.Runner, killed string, idlers int) error {
	var ran, wrong int
	if err := s.Data.QueryRowContext(ctx, `SELECT COUNT(*), COUNT(CASE WHEN step <> line OR token < former THEN 1 END)
		FROM (SELECT line, step, token, LAG(token) OVER (ORDER BY line) AS former FROM notes) AS steps`).Scan(&ran, &wrong); err != nil {
		return err
	}
	if ran != migrations || wrong > 0 {
		return fmt.Errorf("%d steps have run, of %d; out of order, or with a stale token: %d", ran, migrations, wrong)
	}
	var first, heir string // the actors of the step before killIn, and of step killIn
	var rose bool          // whether the token rose between them
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
	// These rows need the tables that the steps create.
	if _, err := s.Data.ExecContext(ctx, `INSERT INTO orders (id, payload, topic_name, topic_version) VALUES (1, '', 'orders', 2);
		INSERT INTO inbox (id, handled) VALUES (1, true)`); err != nil {
		return fmt.Errorf("the schema is not what the steps make: %w", err)
	}
	s.OK("each of the %d steps has run exactly once, in order", migrations)
	s.OK("%s was killed in step %d, which left nothing behind; %s ran it", killed, killIn, heir)
	s.OK("the other %d waited, and found nothing to do", idlers)
	return nil
}
