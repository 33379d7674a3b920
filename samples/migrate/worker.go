package main

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/samples/internal/show"
)

const (
	leaseName = "schema/migrations/outbox"
	// ttl is short, so that one needn't wait long for a dead holder's lease.
	ttl = 2 * time.Second
)

// What workers report.
const (
	begins  = "begins"  // with the lease; Number is the schema's version
	running = "running" // step Number; waits for its cue in the middle of it
	ran     = "ran"     // step Number
	idle    = "idle"    // has the lease, and nothing to do
	done    = "done"    // all steps have run
)

// worker is an actor of the rollout.
type worker struct {
	*show.Worker
	schema schema
	since  time.Time
}

func work(ctx context.Context, me *show.Worker) (err error) {
	manager, closeManager, err := me.Place.Manager(ctx, leasing.Options{
		Owner: me.Name, TTL: ttl,
		MaxPoll: 100 * time.Millisecond, // how soon SQLite's waiters find a lease that was released
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeManager()) }()
	schema, err := openSchema(me.Place)
	if err != nil {
		return err
	}
	defer schema.close()

	w := &worker{Worker: me, schema: schema, since: time.Now()}
	for err = leasing.ErrLost; errors.Is(err, leasing.ErrLost); { // the step was rolled back: wait in line again
		err = leasing.Do(ctx, manager, leaseName, w.migrate)
	}
	return err
}

// migrate runs the steps that are missing.
func (w *worker) migrate(ctx context.Context, lease leasing.Lease) error {
	waited := time.Since(w.since)
	version, err := w.schema.version(ctx, lease.Token())
	if err != nil {
		return err
	}
	if version == len(steps) {
		w.Say(show.Report{Kind: idle, Number: int64(version), Text: waited.Round(time.Millisecond).String()})
		return nil
	}
	w.Say(show.Report{Kind: begins, Token: lease.Token(), Number: int64(version)})
	for number := version + 1; number <= len(steps); number++ {
		// ctx ends with the lease, and with it the transaction of a step.
		err := w.schema.run(ctx, note{Number: number, Actor: w.Name, Token: lease.Token()}, func() {
			w.Cue(show.Report{Kind: running, Number: int64(number)})
		})
		if err != nil {
			return err
		}
		w.Say(show.Report{Kind: ran, Number: int64(number), Text: steps[number-1].title})
	}
	w.Say(show.Report{Kind: done, Number: int64(len(steps))})
	return nil
}
