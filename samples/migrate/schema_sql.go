package main

import (
	"context"
	"database/sql"

	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/samples/internal/place"
)

// sqlSchema is a table of notes and whatever the steps make.
type sqlSchema struct {
	place place.Place
	db    *sql.DB
	fence *fencing.Table
}

func openSQLSchema(p place.Place) (*sqlSchema, error) {
	fence, err := p.Fence()
	if err != nil {
		return nil, err
	}
	db, err := p.SQL()
	if err != nil {
		return nil, err
	}
	return &sqlSchema{place: p, db: db, fence: fence}, nil
}

func (s *sqlSchema) close() { _ = s.db.Close() }

func (s *sqlSchema) text(query string) string {
	return s.place.SQLText(query, "outbox", "inbox", "notes")
}

// create is run before the actors start: here by the play, elsewhere by whoever
// creates the database.
func (s *sqlSchema) create(ctx context.Context) error {
	for _, statement := range []string{
		s.fence.CreateSQL(),
		// Nothing here keeps a step from being noted twice: lease and fence do.
		s.text("CREATE TABLE @notes (line bigint PRIMARY KEY, number bigint NOT NULL, actor text NOT NULL, token bigint NOT NULL)"),
	} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqlSchema) version(ctx context.Context, token int64) (version int, err error) {
	err = s.fence.Do(ctx, s.db, resource, token, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, s.text("SELECT COALESCE(MAX(number), 0) FROM @notes")).Scan(&version)
	})
	return version, err
}

// run needs a database that can undo CREATE and ALTER: PostgreSQL and SQLite can.
func (s *sqlSchema) run(ctx context.Context, n note, midway func()) error {
	return s.fence.Do(ctx, s.db, resource, n.Token, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, s.text(steps[n.Number-1].sql)); err != nil {
			return err
		}
		midway()
		_, err := tx.ExecContext(ctx, s.text("INSERT INTO @notes (line, number, actor, token) SELECT COUNT(*) + 1, ?, ?, ? FROM @notes"),
			n.Number, n.Actor, n.Token)
		return err
	})
}

func (s *sqlSchema) notes(ctx context.Context) (notes []note, err error) {
	rows, err := s.db.QueryContext(ctx, s.text("SELECT number, actor, token FROM @notes ORDER BY line"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var n note
		if err := rows.Scan(&n.Number, &n.Actor, &n.Token); err != nil {
			return nil, err
		}
		notes = append(notes, n)
	}
	return notes, rows.Err()
}

func (s *sqlSchema) complete(ctx context.Context) error {
	for _, statement := range []string{
		"INSERT INTO @outbox (id, payload, topic_name) VALUES (1, '', 'orders')",
		"UPDATE @outbox SET topic_version = topic_version + 1",
		"INSERT INTO @inbox (id, handled) VALUES (1, true)",
	} {
		if _, err := s.db.ExecContext(ctx, s.text(statement)); err != nil {
			return err
		}
	}
	return nil
}
