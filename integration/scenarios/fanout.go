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

// fanout kills a holder of the cursor that has a batch ready: another worker resumes at the same position. It pauses a second
// holder for longer than its lease lasts: another worker takes over. Then the delayed batch of the second holder arrives, and
// this holder wakes up.
//
// Look at the outcome of that late batch. Other workers have already dispatched its messages, so the batch would dispatch them
// again, and set the cursor back. The lease can't stop a batch in flight. The cursor's fence can, since it has seen a greater
// token.
var fanout = runner.Scenario{
	Name: "fanout", About: "a cursor that workers advance one at a time; one is killed, one is paused", Sample: "scenarios",
	TTL:     2 * time.Second, // short, so that a dead holder's lease soon runs out
	Control: controlFanout,
}

const (
	messages = 60 // as in the sample; so is the topic
	topic    = "orders.placed"
	// killAt and pauseAt are positions of the cursor.
	killAt, pauseAt = 20, 40
)

// fanoutShow is one run of the scenario.
type fanoutShow struct {
	*runner.Runner
	killed  string
	paused  runner.Report // the report at which the worker was paused
	asleep  bool
	resumed bool
	lateErr error          // of the late batch
	gaveUp  map[string]int // number of batches given up, by worker
}

func controlFanout(ctx context.Context, r *runner.Runner) error {
	s := &fanoutShow{Runner: r, gaveUp: map[string]int{}}
	s.Announce("three processes want to dispatch %d messages (lease of %v)", messages, s.TTL)
	if err := s.RunWorkers(ctx, 3, func(r runner.Report) bool { return s.react(ctx, r) }, "fanout"); err != nil {
		return err
	}
	switch {
	case !s.resumed || s.gaveUp[s.paused.Worker] != 1:
		return fmt.Errorf("resumed at %d: %t; batches that the paused worker gave up: %d, not 1", killAt, s.resumed, s.gaveUp[s.paused.Worker])
	case !errors.Is(s.lateErr, leasing.ErrStale):
		return fmt.Errorf("the late batch of the paused worker was not refused as stale: %v", s.lateErr)
	}
	s.OK("after %s was killed another worker resumed at position %d", s.killed, killAt)
	s.OK("%s was paused past its lease, its late batch was refused, and it gave the batch up", s.paused.Worker)
	var sent, wrong int
	if err := s.Data.QueryRowContext(ctx, `SELECT COUNT(*), COUNT(CASE WHEN message <> number OR token < former THEN 1 END)
		FROM (SELECT number, message, token, LAG(token) OVER (ORDER BY number) AS former FROM outbox) AS dispatched`).Scan(&sent, &wrong); err != nil {
		return err
	}
	if sent != messages || wrong > 0 {
		return fmt.Errorf("%d messages were dispatched, of %d; out of order, or with a stale token: %d", sent, messages, wrong)
	}
	s.OK("each of the %d messages was dispatched exactly once, in order, with tokens that never fall", messages)
	return nil
}

func (s *fanoutShow) react(ctx context.Context, r runner.Report) (goOn bool) {
	switch r.Kind {
	case "holds the lease":
		s.resumed = s.resumed || s.killed != "" && r.Position == killAt
	case "gives its batch up":
		s.gaveUp[r.Worker]++
	case "has a batch ready":
		switch {
		case r.Position == killAt && s.killed == "":
			s.killed = r.Worker
			s.Announce("kill -KILL %s, which has the batch after %d ready", r.Worker, r.Position)
			s.Kill(r.Worker)
			return false
		case r.Position == pauseAt && s.paused.Worker == "":
			s.paused, s.asleep = r, true
			s.Announce("kill -STOP %s, which has the batch after %d ready", r.Worker, r.Position)
			s.Pause(r.Worker)
			return false
		}
	case "has dispatched":
		if s.asleep { // another worker has taken over and dispatched a batch
			s.asleep = false
			s.lateErr = s.Data.Do(ctx, topic, s.paused.Token, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE positions SET position = $1 WHERE topic = $2", s.paused.Position, topic)
				return err
			})
			s.Announce("the late batch of %s arrives: %v", s.paused.Worker, s.lateErr)
			s.Announce("kill -CONT %s", s.paused.Worker)
			s.Resume(s.paused.Worker)
			s.Continue(s.paused.Worker)
		}
	}
	return true
}
