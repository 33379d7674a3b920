package sqllease

import (
	"cmp"
	"context"
	"database/sql"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/semaphore"
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
	rows, err := q.QueryContext(ctx, statement, args...)
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

// limited runs statements of which only so many are under way at a time, in the order in which they came.
type limited struct {
	statements
	places *semaphore.Weighted
}

// limitedTo leaves one of so many connections to renewals, which don't pass through it: acquires that wait for row locks,
// or a burst of them, can't make leases run out. There is no limit for one connection, nor for 0, which stands for no bound.
func limitedTo(connections int, on statements) limited {
	most := int64(connections - 1)
	if most < 1 {
		most = math.MaxInt64
	}
	return limited{on, semaphore.NewWeighted(most)}
}

func (l limited) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	if err := l.places.Acquire(ctx, 1); err != nil {
		return err
	}
	defer l.places.Release(1)
	return l.statements.query(ctx, statement, args, each)
}

// query runs one statement, and hands over each of its rows. It asks pgx itself where it
// can: through database/sql a request takes a goroutine and some fifty allocations more.
func (d *pgDatabase) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	if !d.native {
		return viaSQL{d.querier}.query(ctx, statement, args, each)
	}
	conn, err := d.connection(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(driverConn any) error {
		conn := driverConn.(*stdlib.Conn).Conn()
		if d.strict.Load() {
			return readCommitted(ctx, conn, statement, args, each)
		}
		rows, err := conn.Query(ctx, statement, args...)
		return scanAll(rows, err, each)
	})
}

func scanAll(rows pgx.Rows, err error, each func(scan) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readCommitted runs a statement in a transaction that says its level. It is sent as a whole: no row stays locked while the
// server waits for a client.
func readCommitted(ctx context.Context, conn *pgx.Conn, statement string, args []any, each func(scan) error) error {
	var all pgx.Batch
	all.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	all.Queue(statement, args...)
	all.Queue("COMMIT")
	results := conn.SendBatch(ctx, &all)
	_, err := results.Exec()
	if err == nil {
		rows, failed := results.Query()
		err = scanAll(rows, failed, each)
	}
	if err == nil {
		_, err = results.Exec()
	}
	err = cmp.Or(err, results.Close())
	if err != nil && !conn.IsClosed() && conn.PgConn().TxStatus() != 'I' {
		_, _ = conn.Exec(ctx, "ROLLBACK")
	}
	return err
}
