package main

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/schedule"
	"github.com/distributedleasing/leasing/samples/internal/journal"
	"github.com/distributedleasing/leasing/samples/internal/show"
)

const (
	name = "jobs/daily-maintenance"
	// every is a day.
	every = 4 * time.Second
	// ttl is how long a dead process keeps the others from its tick: shorter
	// than a day, so that they can run the job for it.
	ttl = time.Second
)

// What workers report. Number is the tick, in seconds since 1970.
const (
	begins  = "begins"  // the job; waits for its cue in the middle of it
	did     = "did"     // the work; the journal has taken it
	again   = "again"   // the work was done before
	trouble = "trouble" // that the schedule tells of
)

// worker follows the timetable.
type worker struct {
	*show.Worker
	book journal.Journal
}

func work(ctx context.Context, me *show.Worker) (err error) {
	manager, closeManager, err := me.Place.Manager(ctx, leasing.Options{Owner: me.Name, TTL: ttl})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeManager()) }()
	book, err := journal.Open(me.Place)
	if err != nil {
		return err
	}
	defer book.Close()

	w := &worker{Worker: me, book: book}
	err = schedule.Run(ctx, manager, schedule.Options{
		Name:        name,
		Every:       every,
		CatchUp:     true, // the first day has begun
		Jitter:      every / 40,
		AtLeastOnce: true,
		OnError: func(tick time.Time, err error) {
			w.Say(show.Report{Kind: trouble, Number: tick.Unix(), Text: err.Error()})
		},
	}, w.maintain)
	if ctx.Err() != nil {
		return nil // dismissed
	}
	return err
}

// maintain is the job. It is started again if a process dies in the middle of
// it, so it looks whether its work is done, and notes what it has done along with
// it: here the note is all of the work.
func (w *worker) maintain(ctx context.Context, tick schedule.Tick) error {
	w.Cue(show.Report{Kind: begins, Number: tick.At.Unix(), Token: tick.Token()})
	first, err := w.book.Note(ctx, name, tick.Token(), tickName(tick.At), w.Name)
	if err != nil {
		return err
	}
	kind := again
	if first {
		kind = did
	}
	w.Say(show.Report{Kind: kind, Number: tick.At.Unix()})
	return nil
}

// tickName is how the journal knows a tick.
func tickName(tick time.Time) string { return tick.Format(time.RFC3339) }
