package main

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"github.com/distributedleasing/leasing/recipes/schedule"
	"github.com/distributedleasing/leasing/samples/internal/app"
)

// day is the length of a day in this sample.
const day = 4 * time.Second

// daily runs a job once for each scheduled time, although several processes follow the timetable.
//
// The first process to arrive runs the job, and the others find the tick taken. Since AtLeastOnce is set, another process
// starts the job again if the first dies in the middle. No schedule can promise that the work is done exactly once, since a
// process may die between the end of its work and its report. The table that the job writes to can promise that: it accepts
// each tick once, and checks the token.
func daily(ctx context.Context, a *app.App) error {
	if err := a.Create(ctx, "CREATE TABLE IF NOT EXISTS daily (tick text PRIMARY KEY, worker text NOT NULL)"); err != nil {
		return err
	}
	return schedule.Run(ctx, a.Manager, schedule.Options{
		Name:        a.Name,
		Every:       day,
		CatchUp:     true, // the first day has begun
		Jitter:      day / 40,
		AtLeastOnce: true,
		OnError:     func(tick time.Time, err error) { slog.Warn("the job failed", "tick", tick, "err", err) },
	}, func(ctx context.Context, tick schedule.Tick) error { return maintain(ctx, a, tick) })
}

// maintain is the job. It may be started again, so it stores the tick in the same transaction as its work; here storing the tick
// is all of the work.
func maintain(ctx context.Context, a *app.App, tick schedule.Tick) error {
	slog.Info("runs the job", "tick", tick.At, "token", tick.Token())
	err := a.Write(ctx, a.Name, tick.Token(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO daily (tick, worker) VALUES ($1, $2) ON CONFLICT (tick) DO NOTHING",
			tick.At.UTC().Format(time.RFC3339), a.Owner)
		return err
	})
	if err == nil {
		slog.Info("has done the work", "tick", tick.At)
	}
	return err
}
