package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/distributedleasing/leasing/fencing"
)

// ledger is the resource that the lease protects: numbered rows that only the
// holder may write. It does not rely on the holder's manners: it checks the
// fencing token, in the transaction of the write. It is no part of the backend,
// and the same for all of them.
type ledger struct {
	db    *sql.DB
	fence *fencing.Table
}

// openLedger opens the file, or returns nil, a ledger that takes no notes.
func openLedger(ctx context.Context, path string) (*ledger, error) {
	if path == "" {
		return nil, nil
	}
	fence, err := fencing.NewTable(fencing.Question, "fencing")
	if err != nil {
		return nil, err
	}
	// A transaction takes the file's write lock when it begins: one that reads
	// first could not get it later if somebody has written in between.
	file := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: "_txlock=immediate&_pragma=busy_timeout(10000)"}
	db, err := sql.Open("sqlite3", file.String())
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{
		fence.CreateSQL(),
		"CREATE TABLE IF NOT EXISTS items (name text, number integer, token integer NOT NULL, worker text NOT NULL, PRIMARY KEY (name, number))",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return &ledger{db: db, fence: fence}, nil
}

func (l *ledger) close() {
	if l != nil {
		_ = l.db.Close()
	}
}

// write adds a row in the name of the lease with this token, and returns its
// number. If the ledger has seen a later lease's token it refuses, with an error
// that matches leasing.ErrStale.
func (l *ledger) write(ctx context.Context, name string, token int64, worker string) (number int64, err error) {
	if l == nil {
		return 0, nil
	}
	err = l.fence.Do(ctx, l.db, name, token, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "INSERT INTO items (name, number, token, worker) SELECT ?1, COUNT(*) + 1, ?2, ?3 FROM items WHERE name = ?1 RETURNING number",
			name, token, worker).Scan(&number)
	})
	return number, err
}

// row is one item.
type row struct {
	number, token int64
	worker        string
}

// rows returns the items that were done under a name, in order.
func (l *ledger) rows(ctx context.Context, name string) (all []row, err error) {
	rows, err := l.db.QueryContext(ctx, "SELECT number, token, worker FROM items WHERE name = ? ORDER BY number", name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.number, &r.token, &r.worker); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}
