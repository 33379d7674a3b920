package sqllease

import (
	"context"
	"database/sql"
)

// querier is a database, a connection or a transaction of package sql.
type querier interface {
	QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
}

// statements runs them, also where package sql is in the way.
type statements interface {
	// query runs one statement, and hands over each of its rows.
	query(ctx context.Context, statement string, args []any, each func(scan) error) error
}

// scan reads the columns of one row.
type scan func(dest ...any) error

// viaSQL runs statements through package sql.
type viaSQL struct{ querier }

func (q viaSQL) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return query(ctx, q, statement, args, each)
}

func query(ctx context.Context, on querier, statement string, args []any, each func(scan) error) error {
	rows, err := on.QueryContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return rows.Close()
}

// run runs a statement for its effect.
func run(ctx context.Context, on statements, statement string, args ...any) error {
	return on.query(ctx, statement, args, func(scan) error { return nil })
}
