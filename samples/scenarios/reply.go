package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"log/slog"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/samples/internal/app"
)

// reply answers each message once, although the queue delivers it to several processes.
//
// The holder of the message's lease composes the reply. Other processes don't wait for the lease: they abandon their delivery,
// get it again a little later, and find that the message is answered. The lease saves the work of a second reply. The
// table of replies makes the reply unique: it accepts one per message, and checks the token.
func reply(ctx context.Context, a *app.App) error {
	if err := a.Create(ctx, "CREATE TABLE IF NOT EXISTS replies (message text PRIMARY KEY, writer text NOT NULL)"); err != nil {
		return err
	}
	for deliveries := flag.Args()[1:]; len(deliveries) > 0; deliveries = deliveries[1:] {
		message := deliveries[0]
		err := a.Manager.TryDo(ctx, a.Name+"/"+message, func(ctx context.Context, lease *leasing.Lease) error {
			return answer(ctx, a, lease, message)
		})
		switch {
		case errors.Is(err, leasing.ErrHeld), errors.Is(err, leasing.ErrUnavailable), errors.Is(err, leasing.ErrLost), errors.Is(err, leasing.ErrStale):
			slog.Debug("abandons a delivery", "message", message, "err", err)
			deliveries = append(deliveries, message)
			err = app.Wait(ctx, 100*time.Millisecond)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// answer composes the reply to a message, unless it is answered. The fence sees the token first: from then on no former
// holder can reply.
func answer(ctx context.Context, a *app.App, lease *leasing.Lease, message string) error {
	answered := 0
	if err := a.Write(ctx, lease.Name(), lease.Token(), func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM replies WHERE message = $1", message).Scan(&answered)
	}); err != nil || answered > 0 {
		return err
	}
	slog.Info("composes the reply", "message", message, "token", lease.Token())
	if err := app.Wait(ctx, 200*time.Millisecond); err != nil {
		return err
	}
	if err := a.Write(ctx, lease.Name(), lease.Token(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO replies (message, writer) VALUES ($1, $2)", message, a.Owner)
		return err
	}); err != nil {
		return err
	}
	slog.Info("has sent the reply", "message", message)
	return nil
}
