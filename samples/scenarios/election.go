package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/distributedleasing/leasing"
	recipe "github.com/distributedleasing/leasing/recipes/election"
	"github.com/distributedleasing/leasing/samples/internal/app"
)

// election runs a service in which one process leads, and writes rows into a ledger. The ledger refuses the rows of a
// former leader by their token.
func election(ctx context.Context, a *app.App) error {
	if err := a.Create(ctx, "CREATE TABLE IF NOT EXISTS ledger (number bigint PRIMARY KEY, token bigint NOT NULL, writer text NOT NULL)"); err != nil {
		return err
	}
	slog.Info("stands for election")
	return recipe.Run(ctx, a.Manager, recipe.Options{
		Name:      a.Name,
		OnElected: func(ctx context.Context, lease *leasing.Lease) error { return lead(ctx, a, lease) },
		OnResigned: func(lease *leasing.Lease, reason error) {
			if !errors.Is(reason, leasing.ErrLost) {
				slog.Info("has released the lease", "token", lease.Token())
			}
		},
	})
}

// lead is a leader's work. ctx ends before another process can lead.
func lead(ctx context.Context, a *app.App, lease *leasing.Lease) error {
	slog.Info("leads", "token", lease.Token(), "trust", lease.Remaining())
	pace := time.NewTicker(400 * time.Millisecond)
	defer pace.Stop()
	for {
		row, err := writeRow(ctx, a, lease.Token())
		switch {
		case err == nil:
			slog.Info("writes", "row", row, "token", lease.Token(), "trust", lease.Remaining())
		case errors.Is(err, leasing.ErrStale):
			slog.Warn("its row is refused", "token", lease.Token(), "err", err)
		case ctx.Err() == nil:
			return err
		}
		select {
		case <-pace.C:
			continue
		case <-ctx.Done():
		}
		if cause := context.Cause(ctx); errors.Is(cause, leasing.ErrLost) {
			slog.Warn("no longer leads", "token", lease.Token(), "err", cause)
		} else {
			slog.Info("finishes its work", "token", lease.Token())
		}
		return nil
	}
}

// writeRow adds a row to the ledger.
func writeRow(ctx context.Context, a *app.App, token int64) (row int64, err error) {
	err = a.Write(ctx, "ledger", token, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "INSERT INTO ledger (number, token, writer) SELECT COUNT(*) + 1, $1, $2 FROM ledger RETURNING number",
			token, a.Owner).Scan(&row)
	})
	return row, err
}
