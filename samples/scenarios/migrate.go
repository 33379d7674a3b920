package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/samples/internal/app"
)

// steps are migrations. None of them can run twice.
var steps = []string{
	"CREATE TABLE orders (id bigint PRIMARY KEY, payload text NOT NULL)",
	"ALTER TABLE orders ADD COLUMN topic text NOT NULL DEFAULT ''",
	"CREATE TABLE inbox (id bigint PRIMARY KEY, handled boolean NOT NULL)",
	"ALTER TABLE orders RENAME COLUMN topic TO topic_name",
	"ALTER TABLE orders ADD COLUMN topic_version integer NOT NULL DEFAULT 1",
}

// migrate brings a schema up to date. Several processes are rolled out together: the holder of the lease runs the missing steps,
// and the others wait.
//
// Each step runs in one transaction with the entry that records the step, so the step of a process that died leaves nothing
// behind. This needs a database that can roll back CREATE and ALTER, such as PostgreSQL and SQLite. On SQLite keep the leases in
// a file of their own: a step locks the whole file, and renewals wait. The TTL need not be as long as a migration: it bounds how
// long the others wait for a dead holder.
func migrate(ctx context.Context, a *app.App) error {
	// No constraint keeps a step from being recorded twice: only the lease and the fence prevent
	// duplicates.
	if err := a.Create(ctx, "CREATE TABLE IF NOT EXISTS notes (line bigint PRIMARY KEY, step bigint NOT NULL, actor text NOT NULL, token bigint NOT NULL)"); err != nil {
		return err
	}
	began, err := time.Now(), leasing.ErrLost
	for errors.Is(err, leasing.ErrLost) { // then the step was rolled back
		err = a.Manager.Do(ctx, a.Name, func(ctx context.Context, lease *leasing.Lease) error {
			slog.Info("holds the lease", "token", lease.Token(), "waited", time.Since(began).String())
			return runMissing(ctx, a, lease.Token())
		})
	}
	return err
}

// runMissing runs the missing steps.
func runMissing(ctx context.Context, a *app.App, token int64) error {
	version := 0
	if err := a.Write(ctx, "schema", token, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM notes").Scan(&version)
	}); err != nil {
		return err
	}
	if version == len(steps) {
		slog.Info("has nothing to do", "version", version)
		return nil
	}
	for number := version + 1; number <= len(steps); number++ {
		// ctx ends with the lease, and the transaction with ctx.
		if err := a.Write(ctx, "schema", token, func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, steps[number-1]); err != nil {
				return err
			}
			slog.Debug("is in the middle of a step", "step", number)
			_, err := tx.ExecContext(ctx, "INSERT INTO notes (line, step, actor, token) SELECT COUNT(*) + 1, $1, $2, $3 FROM notes", number, a.Owner, token)
			return err
		}); err != nil {
			return err
		}
		slog.Info("has run", "step", number, "sql", steps[number-1])
	}
	return nil
}
