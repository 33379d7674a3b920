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

// fanout is a cursor that several workers advance, one at a time: example 2 of
// leases, "protecting fan-out cursors".
//
// Three processes want to dispatch the messages of a topic to their subscribers.
// The holder of the lease reads the cursor, dispatches the messages after it in
// batches, and moves the cursor. In the middle of a batch,
//
//   - the first holder is killed: when its lease has run out another one resumes
//     at the same position, and no message is left out;
//   - the second is paused for longer than its lease lasts, with a batch ready
//     to be sent. Another takes over and goes on. Then the second wakes up, and
//     sends the batch that it had ready.
//
// Look at the outcome of that late batch. Its messages have long been
// dispatched, so it would dispatch them again, and set the cursor back. The lease
// can't stop the batch, since the process was asleep. The cursor's fence stops it, since the
// token of the batch is smaller than a token that the fence has seen.
var fanout = runner.Scenario{
	Name: "fanout", About: "a cursor that workers advance one at a time; one is killed, one is paused",
	TTL:     2 * time.Second, // short, so that one needn't wait long for a dead holder's lease
	Control: controlFanout, Work: workFanout,
}

const (
	topic = "orders.placed"
	// messages is the number of messages to dispatch, batch the number of messages in a batch.
	messages, batch = 60, 5
	// killAt and pauseAt are positions of the cursor: multiples of batch.
	killAt, pauseAt = 20, 40
)

// The kinds of the workers' reports.
const (
	holds   = "holds"   // the lease; Number is the position of the cursor
	ready   = "ready"   // a batch after Number; waits to be continued
	moved   = "moved"   // the cursor to Number
	refused = "refused" // a batch that was sent after the lease was lost
)

// workFanout waits for the lease, and for it again when it was lost.
func workFanout(ctx context.Context, w *runner.Worker) (err error) {
	for err = leasing.ErrLost; errors.Is(err, leasing.ErrLost); {
		err = w.Manager.Do(ctx, "fanout/"+topic, func(ctx context.Context, lease *leasing.Lease) error {
			return fanOut(ctx, w, lease)
		})
	}
	return err
}

// fanOut dispatches messages until there are no more, or the lease is lost.
func fanOut(ctx context.Context, w *runner.Worker, lease *leasing.Lease) error {
	// The cursor is shown the token before it is read. From then on no former
	// holder can move it behind our back.
	position := int64(0)
	if err := w.Data.Do(ctx, topic, lease.Token(), func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT position FROM cursor").Scan(&position)
	}); err != nil {
		return err
	}
	w.Say(holds, position, "holds the lease, token %d; the cursor is at %d", lease.Token(), position)
	for position < messages {
		next := min(position+batch, messages)
		w.SayAndWait(ready, position, "") // here a batch and its subscribers would be read
		err := dispatch(ctx, w, lease.Token(), position, next)
		if err != nil && lease.Err() != nil {
			return sendLate(ctx, w, lease, position, next)
		}
		if err != nil {
			return err
		}
		position = next
		w.Say(moved, position, "has dispatched up to %d", position)
	}
	return nil
}

// dispatch hands the messages after position to their subscribers, up to next,
// and moves the cursor to next. If it fails it changes nothing.
func dispatch(ctx context.Context, w *runner.Worker, token, position, next int64) error {
	return w.Data.Do(ctx, topic, token, func(ctx context.Context, tx *sql.Tx) error {
		for message := position + 1; message <= next; message++ {
			if _, err := tx.ExecContext(ctx, "INSERT INTO outbox (number, message, token) SELECT COUNT(*) + 1, $1, $2 FROM outbox", message, token); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "UPDATE cursor SET position = $1", next)
		return err
	})
}

// sendLate sends the batch although the lease is lost. No application should do this; it is
// for the demonstration. A process that is paused a moment later, between its check of
// the lease and the write, sends such a batch without a way to avoid the mistake.
func sendLate(ctx context.Context, w *runner.Worker, lease *leasing.Lease, position, next int64) error {
	w.Say("", 0, "wakes up; its lease says: %v", lease.Err())
	inFlight, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := dispatch(inFlight, w, lease.Token(), position, next)
	switch {
	case errors.Is(err, leasing.ErrStale):
		w.Say(refused, position, "its late batch after %d is refused: %v", position, err)
		return nil // Do returns the loss of the lease
	case err == nil:
		w.Say("", position, "its late batch after %d is accepted: no other worker has taken over yet", position)
	}
	return err
}

func controlFanout(ctx context.Context, s *runner.Runner) error {
	if err := s.Data.Create(ctx,
		"CREATE TABLE cursor (position bigint PRIMARY KEY)", "INSERT INTO cursor (position) VALUES (0)",
		// No constraint here keeps a message from being in the table twice: only the fence prevents duplicates.
		"CREATE TABLE outbox (number bigint PRIMARY KEY, message bigint NOT NULL, token bigint NOT NULL)"); err != nil {
		return err
	}
	s.Announce("three processes want to dispatch %d messages (lease of %v)", messages, s.TTL)
	var killed, paused string
	var asleep, resumed bool
	late := map[string]int{} // batches that were refused, by worker
	if err := s.RunWorkers(ctx, 3, "", func(r runner.Report) {
		switch {
		case r.Kind == holds:
			resumed = resumed || killed != "" && r.Number == killAt
		case r.Kind == ready && r.Number == killAt && killed == "":
			killed = r.Worker
			s.Announce("kill -KILL %s, which has the batch after %d ready", r.Worker, r.Number)
			s.Kill(r.Worker)
		case r.Kind == ready && r.Number == pauseAt && paused == "":
			paused, asleep = r.Worker, true
			s.Announce("kill -STOP %s, which has the batch after %d ready", r.Worker, r.Number)
			s.Pause(r.Worker)
		case r.Kind == ready:
			s.Continue(r.Worker)
		case r.Kind == moved && asleep: // another has taken over and gone on
			asleep = false
			s.Announce("kill -CONT %s, which still wants to send its batch", paused)
			s.Resume(paused)
			s.Continue(paused)
		case r.Kind == refused:
			late[r.Worker]++
		}
	}); err != nil {
		return err
	}
	if !resumed || late[paused] != 1 {
		return fmt.Errorf("resumed at %d: %t; late batches of the paused worker that were refused: %d, not 1", killAt, resumed, late[paused])
	}
	s.OK("after %s was killed another worker resumed at position %d", killed, killAt)
	s.OK("%s was paused past its lease, and the batch it sent then was refused", paused)
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
