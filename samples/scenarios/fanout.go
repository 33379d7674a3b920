package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/samples/internal/app"
)

const (
	topic           = "orders.placed"
	messages, batch = 60, 5
)

// fanout dispatches the messages of a topic. Several processes advance one cursor, one at a time. The cursor's fence refuses
// the batch of a process that was paused while another process went on, so that no message is dispatched twice.
func fanout(ctx context.Context, a *app.App) error {
	if err := a.Create(ctx,
		"CREATE TABLE IF NOT EXISTS positions (topic text PRIMARY KEY, position bigint NOT NULL)",
		"INSERT INTO positions (topic, position) VALUES ('"+topic+"', 0) ON CONFLICT (topic) DO NOTHING",
		// No constraint keeps a message from being in the table twice: only the fence prevents duplicates.
		"CREATE TABLE IF NOT EXISTS outbox (number bigint PRIMARY KEY, message bigint NOT NULL, token bigint NOT NULL)"); err != nil {
		return err
	}
	for {
		err := a.Manager.Do(ctx, a.Name, func(ctx context.Context, lease *leasing.Lease) error { return dispatchAll(ctx, a, lease.Token()) })
		if !errors.Is(err, leasing.ErrLost) && !errors.Is(err, leasing.ErrStale) {
			return err
		}
		slog.Warn("gives its batch up", "err", err)
	}
}

// dispatchAll dispatches messages until there are no more, or the lease is lost.
func dispatchAll(ctx context.Context, a *app.App, token int64) error {
	// The fence sees the token before the cursor is read. From then on no former holder can move the cursor.
	position := int64(0)
	if err := a.Write(ctx, topic, token, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT position FROM positions WHERE topic = $1", topic).Scan(&position)
	}); err != nil {
		return err
	}
	slog.Info("holds the lease", "token", token, "position", position)
	for position < messages {
		next := min(position+batch, messages)
		slog.Debug("has a batch ready", "position", position, "token", token)
		if err := dispatch(ctx, a, token, position, next); err != nil {
			return err
		}
		position = next
		slog.Info("has dispatched", "position", position)
	}
	return nil
}

// dispatch sends the messages after position, up to next, and moves the cursor. If it fails, the cursor and the table are
// unchanged.
func dispatch(ctx context.Context, a *app.App, token, position, next int64) error {
	return a.Write(ctx, topic, token, func(ctx context.Context, tx *sql.Tx) error {
		for message := position + 1; message <= next; message++ {
			if _, err := tx.ExecContext(ctx, "INSERT INTO outbox (number, message, token) SELECT COUNT(*) + 1, $1, $2 FROM outbox", message, token); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "UPDATE positions SET position = $1 WHERE topic = $2", next, topic)
		return err
	})
}
