package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/distributedleasing/leasing/samples/internal/app"
	"github.com/distributedleasing/leasing/sequence"
)

var errInsufficientFunds = errors.New("no cover")

// transfer writes a transfer under the next number, or gives the number up. It saves its work in between: if the process dies, a
// cleaner finishes the work.
func transfer(ctx context.Context, s *sequence.Stream[*sql.Tx], op string, funded bool) error {
	refused := int64(0) // the number of a commit that came too late
	err := s.Do(ctx, sequence.Operation{ID: op, Kind: "transfer", Duration: leaseFor}, func(leased context.Context, n *sequence.Number[*sql.Tx]) error {
		if err := app.Wait(leased, time.Duration(50+rand.IntN(200))*time.Millisecond); err != nil { // stands for work
			return err
		}
		slog.Debug("has done its work", "number", n.Seq())
		if !funded {
			return errInsufficientFunds
		}
		work := op + " pays"
		save(ctx, n, sequence.Partial, work)
		work += " 10 coins"
		save(ctx, n, sequence.Completed, work)
		// The store decides whether the number is still ours, so the commit does not use the lease's context.
		err := n.Commit(ctx, []byte(work), nil)
		if errors.Is(err, sequence.ErrLate) {
			refused = n.Seq()
			slog.Warn("has its commit refused", "number", n.Seq(), "err", err)
		}
		return err
	})
	late, isLate := errors.AsType[*sequence.LateCommitError](err)
	switch {
	case isLate:
		slog.Warn("was late", "number", late.Entry.Seq, "settled", late.Settled)
		return nil
	case errors.Is(err, errInsufficientFunds):
		slog.Debug("gives its number up", "op", op, "err", err)
		return nil
	case err == nil && refused > 0:
		slog.Info("has its result all the same", "number", refused)
	}
	return err
}

// save stores work for a possible recovery. The transfer goes on if the save fails.
func save(ctx context.Context, n *sequence.Number[*sql.Tx], phase sequence.Phase, work string) {
	if err := n.Save(ctx, phase, []byte(work)); err != nil {
		slog.Warn("could not save its work", "number", n.Seq(), "err", err)
		return
	}
	slog.Debug("has saved", "number", n.Seq(), "phase", phase)
}

// insert is the application's own write. It joins the transaction that commits a number, whichever process commits.
func insert(ctx context.Context, tx *sql.Tx, e sequence.Entry) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO transfers (seq, op, entry) VALUES ($1, $2, $3)", e.Seq, e.Op, string(e.Payload))
	return err
}
