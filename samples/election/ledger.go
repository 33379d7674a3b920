//go:build unix

package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/distributedleasing/leasing/fencing"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
)

// ledger is the resource that the lease protects: a table of numbered rows
// that only the leader may write. It does not rely on the leader's manners; it
// checks the fencing token.
type ledger struct {
	db     *sql.DB
	fence  *fencing.Table
	rows   string // the table of rows
	insert string // the statement that adds one
	touch  string // a statement that waits for a write under way
}

func openLedger(p place) (*ledger, error) {
	fence, err := fencing.NewTable(p.placeholders(), p.table("fencing"))
	if err != nil {
		return nil, err
	}
	db, err := p.open()
	if err != nil {
		return nil, err
	}
	l := &ledger{db: db, fence: fence, rows: p.table("ledger"), touch: "UPDATE " + p.table("fencing") + " SET token = token"}
	values := "SELECT COUNT(*) + 1, ?, ?"
	if p.Dialect == sqllease.Postgres {
		values = "SELECT COUNT(*) + 1, $1, $2"
	}
	l.insert = fmt.Sprintf("INSERT INTO %s (number, token, writer) %s FROM %s RETURNING number", l.rows, values, l.rows)
	return l, nil
}

func (l *ledger) close() { _ = l.db.Close() }

func (l *ledger) create(ctx context.Context) error {
	for _, statement := range []string{
		l.fence.CreateSQL(),
		"CREATE TABLE " + l.rows + " (number bigint PRIMARY KEY, token bigint NOT NULL, writer text NOT NULL)",
	} {
		if _, err := l.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// write adds a row in the name of the lease with this token. If the ledger has
// seen a later lease's token it refuses, with an error that matches
// leasing.ErrStale.
func (l *ledger) write(ctx context.Context, writer string, token int64) (number int64, err error) {
	err = l.fence.Do(ctx, l.db, "ledger", token, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, l.insert, token, writer).Scan(&number)
	})
	return number, err
}

// idle waits until no write is under way.
func (l *ledger) idle(ctx context.Context) error {
	_, err := l.db.ExecContext(ctx, l.touch)
	return err
}

// row is a row of the ledger.
type row struct {
	number, token int64
	writer        string
}

func (l *ledger) all(ctx context.Context) (all []row, err error) {
	rows, err := l.db.QueryContext(ctx, "SELECT number, token, writer FROM "+l.rows+" ORDER BY number")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.number, &r.token, &r.writer); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}
