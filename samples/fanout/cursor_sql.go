package main

import (
	"context"
	"database/sql"

	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/samples/internal/place"
)

// resource is what the fence calls the cursor.
const resource = "orders.placed"

// sqlCursor is a row, and the subscribers' outbox beside it, in one database.
type sqlCursor struct {
	db                             *sql.DB
	fence                          *fencing.Table
	tables                         []string
	position, insert, move, outbox string
}

func openSQLCursor(p place.Place) (*sqlCursor, error) {
	fence, err := p.Fence()
	if err != nil {
		return nil, err
	}
	db, err := p.SQL()
	if err != nil {
		return nil, err
	}
	text := func(query string) string { return p.SQLText(query, "positions", "outbox") }
	return &sqlCursor{
		db: db, fence: fence,
		tables: []string{
			fence.CreateSQL(),
			text("CREATE TABLE @positions (topic text PRIMARY KEY, position bigint NOT NULL)"),
			// Nothing here keeps a message from being there twice: the fence does.
			text("CREATE TABLE @outbox (number bigint PRIMARY KEY, message bigint NOT NULL, token bigint NOT NULL)"),
			text("INSERT INTO @positions (topic, position) VALUES ('" + resource + "', 0)"),
		},
		position: text("SELECT position FROM @positions WHERE topic = ?"),
		insert:   text("INSERT INTO @outbox (number, message, token) SELECT COUNT(*) + 1, ?, ? FROM @outbox"),
		move:     text("UPDATE @positions SET position = ? WHERE topic = ?"),
		outbox:   text("SELECT message, token FROM @outbox ORDER BY number"),
	}, nil
}

func (c *sqlCursor) close() { _ = c.db.Close() }

func (c *sqlCursor) create(ctx context.Context) error {
	for _, statement := range c.tables {
		if _, err := c.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (c *sqlCursor) read(ctx context.Context, token int64) (position int64, err error) {
	err = c.fence.Do(ctx, c.db, resource, token, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, c.position, resource).Scan(&position)
	})
	return position, err
}

func (c *sqlCursor) dispatch(ctx context.Context, token, position, next int64) error {
	return c.fence.Do(ctx, c.db, resource, token, func(ctx context.Context, tx *sql.Tx) error {
		for message := position + 1; message <= next; message++ {
			if _, err := tx.ExecContext(ctx, c.insert, message, token); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, c.move, next, resource)
		return err
	})
}

func (c *sqlCursor) outcome(ctx context.Context) (position int64, sent []dispatched, err error) {
	if err := c.db.QueryRowContext(ctx, c.position, resource).Scan(&position); err != nil {
		return 0, nil, err
	}
	rows, err := c.db.QueryContext(ctx, c.outbox)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var d dispatched
		if err := rows.Scan(&d.Message, &d.Token); err != nil {
			return 0, nil, err
		}
		sent = append(sent, d)
	}
	return position, sent, rows.Err()
}
