// Command migrate shows schema migrations that many actors start at the same
// time, and that one of them runs: example 3 of leases, "serialising schema
// migrations".
//
//	go run ./migrate                                 # on a temporary SQLite file, some 2 seconds
//	go run ./migrate -url postgres://user@host/db    # or redis://..., sqlite:///path
//
// Five processes are rolled out together, and each of them brings the schema up
// to date before it begins. Whoever has the lease runs the steps that are
// missing; the others wait for it. The first one is killed half-way through a
// step. When its lease has run out the next one finds the steps that are done,
// runs the others, and whoever comes after it finds nothing to do.
//
// Look at two things. Each step runs in one transaction with the note that it has
// run, so the half step of the dead process leaves nothing behind. (Redis has no
// such transactions; there a step is a script.) And the transaction begins with
// the fence, so the step of a process that was paused for longer than its lease
// would be refused.
//
// The lease needs no TTL as long as the longest migration: it is renewed, and the
// TTL says only how long the others wait for a dead one. On SQLite keep the
// leases in a file of their own: a step locks the whole file, and renewals wait.
//
// The exit code is 0 only if each step has run exactly once, in order, and all
// who lived came to the same end. worker.go and schema_*.go are what an
// application would have.
package main

import (
	"context"
	"fmt"

	"github.com/distributedleasing/leasing/samples/internal/show"
)

const (
	actors = 5
	// killIn is the step in which the first actor is killed, counted from 1.
	killIn = 3
)

func main() { show.Main("migrate", play, work) }

// play starts the actors and kills one.
func play(ctx context.Context, s *show.Show) error {
	schema, err := openSchema(s.Place)
	if err != nil {
		return err
	}
	defer schema.close()
	if err := schema.create(ctx); err != nil {
		return err
	}
	s.Line("", "%d processes want to run %d migrations (lease of %v, on %v)", actors, len(steps), ttl, s.Place)
	for i := range actors {
		if err := s.Start(fmt.Sprintf("w%d", i+1), ""); err != nil {
			return err
		}
	}
	story := story{show: s, ran: map[string]int{}}
	for s.Running() > 0 {
		r, err := s.Next(ctx)
		if err != nil {
			return err
		}
		if err := story.on(r); err != nil {
			return err
		}
	}
	return story.judge(ctx, schema)
}

// story is what has happened so far.
type story struct {
	show   *show.Show
	killed string         // an actor
	ran    map[string]int // steps, by actor
	idle   int            // actors that found nothing to do
	done   int            // actors that ran the last step
}

// on prints a report and answers it.
func (t *story) on(r show.Report) error {
	switch r.Kind {
	case begins:
		t.show.Line(r.Worker, "holds the lease, token %d; the schema is at version %d", r.Token, r.Number)
	case running:
		if r.Number != killIn || t.killed != "" {
			return t.show.Cue(r.Worker)
		}
		t.killed = r.Worker
		t.show.Act("kill -KILL %s, in the middle of step %d", r.Worker, r.Number)
		return t.show.Kill(r.Worker)
	case ran:
		t.ran[r.Worker]++
		t.show.Line(r.Worker, "has run step %d: %s", r.Number, r.Text)
	case idle:
		t.idle++
		t.show.Line(r.Worker, "has nothing to do: version %d; it waited %s", r.Number, r.Text)
	case done:
		t.done++
		t.show.Line(r.Worker, "is done: version %d", r.Number)
	case show.Exited:
		t.show.Line(r.Worker, "is gone: %s", r.Text)
	}
	return nil
}

// judge checks what the schema says has run.
func (t *story) judge(ctx context.Context, schema schema) error {
	notes, err := schema.notes(ctx)
	if err != nil {
		return err
	}
	if len(notes) != len(steps) {
		return fmt.Errorf("%d steps have run, of %d: %v", len(notes), len(steps), notes)
	}
	for i, n := range notes {
		if n.Number != i+1 || i > 0 && n.Token < notes[i-1].Token {
			return fmt.Errorf("note %d is of step %d with token %d: %v", i+1, n.Number, n.Token, notes)
		}
		t.ran[n.Actor]-- // what it has said
	}
	for actor, more := range t.ran {
		if more != 0 {
			return fmt.Errorf("%s has reported %d more steps than are noted", actor, more)
		}
	}
	first, next := notes[killIn-2], notes[killIn-1]
	if first.Actor != t.killed || next.Actor == t.killed || next.Token <= first.Token {
		return fmt.Errorf("%s was killed in step %d, and these have run: %v", t.killed, killIn, notes)
	}
	if t.done != 1 || t.idle != actors-2 {
		return fmt.Errorf("%d ran the last step and %d found nothing to do, of %d who lived", t.done, t.idle, actors-1)
	}
	if err := schema.complete(ctx); err != nil {
		return fmt.Errorf("the schema is not what the steps make: %w", err)
	}
	t.show.OK("each of the %d steps has run exactly once, in order", len(steps))
	t.show.OK("%s was killed in step %d, which left nothing behind; %s ran it", t.killed, killIn, next.Actor)
	t.show.OK("the other %d waited, and found nothing to do", t.idle)
	return nil
}
