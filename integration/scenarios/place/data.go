package place

import (
	"context"
	"database/sql"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/distributedleasing/leasing/fencing/sqlfence"
)

// Data is the database of a run: the resource that its leases protect. Parameters in
// SQL are $1, $2 and so on, which SQLite also understands.
type Data struct {
	*sql.DB
	fence *sqlfence.Table
}

// Open opens the database. It sends nothing.
func (p Place) Open() (*Data, error) {
	style := sqlfence.Question
	if p.Driver == "pgx" {
		style = sqlfence.Dollar
	}
	fence, err := sqlfence.NewTable(style, "fencing")
	if err != nil {
		return nil, err
	}
	db, err := sql.Open(p.Driver, p.Data)
	if err != nil {
		return nil, err
	}
	return &Data{db, fence}, nil
}

// Do runs a function in a transaction that first passes the fence. The fence refuses the transaction, with an error that matches
// leasing.ErrStale, if it has seen a larger token for the resource. The samples write in the same way.
func (d *Data) Do(ctx context.Context, resource string, token int64, do func(ctx context.Context, tx *sql.Tx) error) error {
	return d.fence.Do(ctx, d.DB, resource, token, do)
}

// Each calls a function for every row of a query.
func Each(ctx context.Context, db *sql.DB, query string, each func(row *sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
