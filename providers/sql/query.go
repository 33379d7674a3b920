package sqllease

import (
	"context"
	"database/sql"
)

// querier is a database, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
}

// scan reads the columns of one row.
type scan func(dest ...any) error

// query runs one statement, and hands over each of its rows.
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
func run(ctx context.Context, on querier, statement string, args ...any) error {
	return query(ctx, on, statement, args, func(scan) error { return nil })
}
