package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/integration/scenarios/place"
	"github.com/distributedleasing/leasing/integration/scenarios/runner"
)

// reply delivers each message three times at the same time, as when the timeout of a queue is shorter than the work. It pauses
// the first worker that composes the reply to one message: the lease runs out, and another worker replies. Then the delayed
// reply of the first worker arrives, and this worker wakes up.
var reply = runner.Scenario{
	Name: "reply", About: "one reply to a message that is delivered several times", Sample: "scenarios",
	TTL:     3 * time.Second, // far more than it takes to compose a reply
	Control: controlReply,
}

const (
	repliers = 4
	inbox    = 12
	// copies is the number of deliveries of each message.
	copies = 3
	// stalled is the message whose first worker is paused.
	stalled = "message-05"
)

// replyShow is one run of the scenario.
type replyShow struct {
	*runner.Runner
	counts  map[string]int // reports, by kind
	paused  runner.Report  // the report at which the worker was paused
	lateErr error          // of the late reply
}

func controlReply(ctx context.Context, r *runner.Runner) error {
	s := &replyShow{Runner: r, counts: map[string]int{}}
	s.Announce("%d messages are delivered %d times each, to %d workers", inbox, copies, repliers)
	for i := range repliers {
		deliveries := []string{"reply"}
		for m := range inbox {
			for c := range copies {
				if (m+c)%repliers == i {
					deliveries = append(deliveries, fmt.Sprintf("message-%02d", m+1))
				}
			}
		}
		if err := s.Start(ctx, fmt.Sprintf("w%d", i+1), deliveries...); err != nil {
			return err
		}
	}
	if err := s.Follow(ctx, func(r runner.Report) bool { return s.react(ctx, r) }); err != nil {
		return err
	}
	return s.check(ctx)
}

func (s *replyShow) react(ctx context.Context, r runner.Report) (goOn bool) {
	s.counts[r.Kind]++
	switch {
	case r.Message != stalled:
	case r.Kind == "composes the reply" && s.paused.Worker == "":
		s.paused = r
		s.Announce("kill -STOP %s, which composes the reply to %s", r.Worker, stalled)
		s.Pause(r.Worker)
		return false
	case r.Kind == "has sent the reply" && r.Worker != s.paused.Worker:
		s.lateErr = s.Data.Do(ctx, s.Place.Lease("reply")+"/"+stalled, s.paused.Token, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO replies (message, writer) VALUES ('late', $1)", s.paused.Worker)
			return err
		})
		s.Announce("the late reply of %s arrives: %v", s.paused.Worker, s.lateErr)
		s.Announce("kill -CONT %s", s.paused.Worker)
		s.Resume(s.paused.Worker)
		s.Continue(s.paused.Worker)
	}
	return true
}

func (s *replyShow) check(ctx context.Context) error {
	replies := map[string]string{}
	if err := place.Each(ctx, s.Data.DB, "SELECT message, writer FROM replies", func(row *sql.Rows) error {
		var message, writer string
		err := row.Scan(&message, &writer)
		replies[message] = writer
		return err
	}); err != nil {
		return err
	}
	sent, abandoned := s.counts["has sent the reply"], s.counts["abandons a delivery"]
	switch {
	case len(replies) != inbox || sent != inbox:
		return fmt.Errorf("there are %d replies and %d were sent, for %d messages", len(replies), sent, inbox)
	case replies[stalled] == s.paused.Worker || !errors.Is(s.lateErr, leasing.ErrStale):
		return fmt.Errorf("the late reply of %s was not refused as stale: %v", s.paused.Worker, s.lateErr)
	case abandoned == 0:
		return errors.New("no delivery was abandoned")
	}
	s.OK("%d deliveries of %d messages: exactly one reply each", inbox*copies, inbox)
	s.OK("replies were composed %d times, and deliveries abandoned %d times", s.counts["composes the reply"], abandoned)
	s.OK("the late reply of the worker that had stalled was refused")
	return nil
}
