// Command fanout shows a cursor that several workers advance, one at a time:
// example 2 of leases, "protecting fan-out cursors".
//
//	go run ./fanout                                 # on a temporary SQLite file, some 4 seconds
//	go run ./fanout -url redis://127.0.0.1:6379/0   # or postgres://..., sqlite:///path
//
// Three processes want to dispatch the messages of a topic to their subscribers.
// Whoever has the lease reads the cursor, dispatches the messages after it in
// batches, and moves the cursor. In the middle of a batch,
//
//   - the first holder is killed: when its lease has run out another one resumes
//     at the same position, and no message is left out;
//   - the second is paused for longer than its lease lasts, with a batch ready
//     to be sent. Another takes over and goes on. Then the second wakes up, and
//     sends the batch that it had ready.
//
// Look at what becomes of that late batch. Its messages have long been
// dispatched, so it would dispatch them again, and set the cursor back. The lease
// can't stop it: the process was asleep. The cursor's fence does, since the token
// of the batch is smaller than one that it has seen.
//
// The exit code is 0 only if each message was dispatched exactly once, in order,
// and the late batch was refused. worker.go and cursor_*.go are what an
// application would have.
package main

import (
	"context"
	"fmt"

	"github.com/distributedleasing/leasing/samples/internal/show"
)

const (
	// messages is how many there are to dispatch.
	messages = 60
	// killAt and pauseAt are positions of the cursor: multiples of batch.
	killAt  = 20
	pauseAt = 40
)

func main() { show.Main("fanout", play, work) }

// play directs the workers.
func play(ctx context.Context, s *show.Show) error {
	cursor, err := openCursor(s.Place)
	if err != nil {
		return err
	}
	defer cursor.close()
	if err := cursor.create(ctx); err != nil {
		return err
	}
	s.Line("", "three processes want to dispatch %d messages (lease of %v, on %v)", messages, ttl, s.Place)
	for _, name := range []string{"w1", "w2", "w3"} {
		if err := s.Start(name, ""); err != nil {
			return err
		}
	}
	story := story{show: s, refused: map[string]int{}}
	for s.Running() > 0 {
		r, err := s.Next(ctx)
		if err != nil {
			return err
		}
		if err := story.on(r); err != nil {
			return err
		}
	}
	return story.judge(ctx, cursor)
}

// story is what has happened so far.
type story struct {
	show           *show.Show
	killed, paused string // workers
	asleep         bool
	resumed        bool           // somebody went on at killAt
	refused        map[string]int // batches, by worker
}

// on prints a report and answers it.
func (t *story) on(r show.Report) error {
	switch r.Kind {
	case holds:
		t.show.Line(r.Worker, "holds the lease, token %d; the cursor is at %d", r.Token, r.Number)
		t.resumed = t.resumed || t.killed != "" && r.Number == killAt
	case ready:
		return t.cue(r)
	case moved:
		t.show.Line(r.Worker, "has dispatched up to %d", r.Number)
		return t.wake()
	case unsent:
		t.show.Line(r.Worker, "wakes up; its lease says: %s", r.Text)
	case refused:
		t.refused[r.Worker]++
		t.show.Line(r.Worker, "its late batch after %d is refused: %s", r.Number, r.Text)
	case late:
		t.show.Line(r.Worker, "its late batch after %d is accepted: nobody has taken over yet", r.Number)
	case show.Exited:
		t.show.Line(r.Worker, "is gone: %s", r.Text)
	}
	return nil
}

// cue lets a worker send the batch that it has ready, or strikes.
func (t *story) cue(r show.Report) error {
	switch {
	case r.Number == killAt && t.killed == "":
		t.killed = r.Worker
		t.show.Act("kill -KILL %s, which has the batch after %d ready", r.Worker, r.Number)
		return t.show.Kill(r.Worker)
	case r.Number == pauseAt && t.paused == "":
		t.paused, t.asleep = r.Worker, true
		t.show.Act("kill -STOP %s, which has the batch after %d ready", r.Worker, r.Number)
		return t.show.Pause(r.Worker)
	}
	return t.show.Cue(r.Worker)
}

// wake wakes the paused worker up when another has taken over and gone on. It
// sends its batch as if nothing had happened.
func (t *story) wake() error {
	if !t.asleep {
		return nil
	}
	t.asleep = false
	t.show.Act("kill -CONT %s, which still wants to send its batch", t.paused)
	if err := t.show.Resume(t.paused); err != nil {
		return err
	}
	return t.show.Cue(t.paused)
}

// judge checks what was dispatched.
func (t *story) judge(ctx context.Context, c cursor) error {
	position, sent, err := c.outcome(ctx)
	if err != nil {
		return err
	}
	if position != messages || len(sent) != messages {
		return fmt.Errorf("the cursor is at %d and %d messages were dispatched, of %d", position, len(sent), messages)
	}
	last := int64(0)
	for i, d := range sent {
		if d.Message != int64(i+1) || d.Token < last {
			return fmt.Errorf("dispatch %d was of message %d, with token %d after %d", i+1, d.Message, d.Token, last)
		}
		last = d.Token
	}
	if !t.resumed || t.refused[t.paused] != 1 {
		return fmt.Errorf("resumed at %d: %t; late batches of the paused worker that were refused: %d, not 1", killAt, t.resumed, t.refused[t.paused])
	}
	t.show.OK("after %s was killed another worker resumed at position %d", t.killed, killAt)
	t.show.OK("%s was paused past its lease, and the batch it sent then was refused", t.paused)
	t.show.OK("each of the %d messages was dispatched exactly once, in order, with tokens that never fall", messages)
	return nil
}
