package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	recipe "github.com/distributedleasing/leasing/recipes/election"
	"github.com/distributedleasing/leasing/samples/internal/runner"
)

// election is a leader election under attack, on any backend: `make demo`. This
// file has the code of its workers; the parent is in election_control.go.
//
// Three processes compete for one lease. The holder leads, and writes rows
// into a ledger, each write guarded by its fencing token. One after the other,
//
//   - the first leader is killed (SIGKILL): another takes over when the lease
//     has run out;
//   - the second is paused past its TTL (SIGSTOP) and woken (SIGCONT): it finds
//     itself no longer trusted, and a write it still sends is refused;
//   - the third is asked to stop: it gives the lease up, and another takes over
//     at once.
//
// The timeline shows who leads, with which token, and for how long it can
// still trust its lease. At the end stand the take-over times and the checks
// that have passed.
var election = runner.Scenario{
	Name: "election", About: "a leader election under attack, on any backend (make demo)",
	TTL:     3 * time.Second, // short, so that one needn't wait long for a dead leader's lease
	Control: controlElection, Work: workElection,
}

const leader = "demo/leader"

// The kinds of the workers' reports.
const (
	elected  = "elected"
	wrote    = "wrote"    // a row of the ledger; waits to be continued
	lost     = "lost"     // the lease's context has ended, without a release
	stale    = "stale"    // the ledger has refused a write
	late     = "late"     // the ledger has accepted a write after the loss
	stopping = "stopping" // the work has ended
	resigned = "resigned" // the lease is released
)

// workElection stands for election until it is stopped.
func workElection(ctx context.Context, w *runner.Worker) error {
	w.Say("", 0, "stands for election")
	return unlessStopped(ctx, recipe.Run(ctx, w.Manager, recipe.Options{
		Name:      w.Place.Lease(leader),
		OnElected: func(ctx context.Context, lease *leasing.Lease) error { return lead(ctx, w, lease) },
		OnResigned: func(lease *leasing.Lease, reason error) {
			if !errors.Is(reason, leasing.ErrLost) {
				say(w, lease, resigned, "has released the lease")
			}
		},
	}))
}

// lead is a leader's work, under the lease's context.
func lead(ctx context.Context, w *runner.Worker, lease *leasing.Lease) error {
	sayTrust(w, lease, elected, "leads with token %d", lease.Token())
	pace := time.NewTicker(400 * time.Millisecond)
	defer pace.Stop()
	for {
		row, err := write(ctx, w, lease.Token())
		switch {
		case err == nil:
			sayTrust(w, lease, wrote, "writes row %d", row)
			w.Wait() // so that it is not stopped in the middle of a write
		case errors.Is(err, leasing.ErrStale):
			say(w, lease, stale, "its write: %v", err)
		case ctx.Err() == nil:
			return err
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			return end(ctx, w, lease)
		}
	}
}

// end ends a term. A leader that is paused may have a write on its way
// in that moment; so here, on purpose, one more write is sent after the lease was lost.
// The ledger has to refuse this write.
func end(ctx context.Context, w *runner.Worker, lease *leasing.Lease) error {
	if cause := context.Cause(ctx); !errors.Is(cause, leasing.ErrLost) {
		say(w, lease, stopping, "finishes its work")
		return nil
	}
	say(w, lease, lost, "no longer leads: %v", context.Cause(ctx))
	inFlight, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.TTL())
	defer cancel()
	row, err := write(inFlight, w, lease.Token())
	switch {
	case err == nil:
		say(w, lease, late, "writes row %d without a lease!", row)
	case errors.Is(err, leasing.ErrStale):
		say(w, lease, stale, "its late write: %v", err)
	default:
		return err
	}
	return nil
}

// write adds a row in the name of the lease with this token. If the ledger has
// seen a later lease's token it refuses, with an error that matches
// leasing.ErrStale.
func write(ctx context.Context, w *runner.Worker, token int64) (number int64, err error) {
	err = w.Data.Do(ctx, "ledger", token, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "INSERT INTO ledger (number, token, writer) SELECT COUNT(*) + 1, $1, $2 FROM ledger RETURNING number", token, w.Name).Scan(&number)
	})
	return number, err
}

func say(w *runner.Worker, lease *leasing.Lease, kind, format string, args ...any) {
	w.Report(runner.Report{Kind: kind, Token: lease.Token(), Text: fmt.Sprintf(format, args...)})
}

// sayTrust reports with the trust left. It is read before the clock, so that what
// is reported is rather too much than too little.
func sayTrust(w *runner.Worker, lease *leasing.Lease, kind, format string, args ...any) {
	trust := lease.Remaining()
	text := fmt.Sprintf("%-36s trust %s", fmt.Sprintf(format, args...), bar(trust, lease.TTL()))
	w.Report(runner.Report{Kind: kind, Token: lease.Token(), Trust: trust, Text: text})
}
