package postgreslease

import (
	"cmp"
	"context"
	"time"

	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/postgres/pgkit"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Query runs one statement, and calls the function each for every row. If the server has forgotten prepared statements,
// nothing was changed: Query repeats the statement unprepared, and from then on prepares no statement. If the server can't
// serve requests, Query closes the pool's idle connections: the next request makes a new connection, possibly to another
// server.
func (d *pgDatabase) Query(ctx context.Context, statement string, args []any, each func(dialect.Scan) error) error {
	exec := d.exec.Load()
	err := d.queryOnce(ctx, exec, statement, args, each)
	if err == nil {
		return nil
	}
	verdict := pgkit.Verdict(err)
	if verdict.Unprepared && d.isPgx {
		d.exec.Store(true)
		if !exec && ctx.Err() == nil {
			return d.Query(ctx, statement, args, each)
		}
	}
	if verdict.Close {
		d.drop(ctx)
	}
	return err
}

// queryOnce uses pgx directly where possible: through database/sql a request costs an extra goroutine and some fifty
// allocations.
func (d *pgDatabase) queryOnce(ctx context.Context, exec bool, statement string, args []any, each func(dialect.Scan) error) error {
	if !d.isPgx {
		return d.queryForeign(ctx, statement, args, each)
	}
	if exec {
		args = unpreparedArgs(args)
	}
	if d.pool != nil {
		conn, err := d.fromPool(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		return d.on(ctx, conn.Conn(), statement, args, each)
	}
	conn, err := d.fromDB(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(driverConn any) error {
		return d.on(ctx, driverConn.(*stdlib.Conn).Conn(), statement, args, each)
	})
}

// queryForeign runs a statement through a driver other than pgx.
func (d *pgDatabase) queryForeign(ctx context.Context, statement string, args []any, each func(dialect.Scan) error) error {
	if d.mayBeStale() {
		conn, err := pgkit.ConnChecked(ctx, d.db)
		if err != nil {
			return err
		}
		_ = conn.Close() // back to the pool
	}
	err := dialect.ViaSQL{Querier: d.Querier}.Query(ctx, statement, args, each)
	if err == nil {
		d.used.Store(time.Now().UnixNano())
	}
	return err
}

// on runs a statement on a connection, and closes the connection if it is of no further use.
func (d *pgDatabase) on(ctx context.Context, conn *pgx.Conn, statement string, args []any, each func(dialect.Scan) error) (err error) {
	if d.strictIsolation.Load() {
		err = readCommitted(ctx, conn, statement, args, each)
	} else {
		rows, failed := conn.Query(ctx, statement, args...)
		err = scanAll(rows, failed, each)
	}
	if err != nil && pgkit.Verdict(err).Close {
		pgkit.HangUp(conn)
	}
	return err
}

func scanAll(rows pgx.Rows, err error, each func(dialect.Scan) error) error {
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

// readCommitted runs a statement in a transaction that sets its own level. The transaction is sent as a whole, so no row stays
// locked while the server waits for a client.
func readCommitted(ctx context.Context, conn *pgx.Conn, statement string, args []any, each func(dialect.Scan) error) error {
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

// unprepared runs statements through pgx without preparing them beforehand.
type unprepared struct{ dialect.Statements }

func (u unprepared) Query(ctx context.Context, statement string, args []any, each func(dialect.Scan) error) error {
	return u.Statements.Query(ctx, statement, unpreparedArgs(args), each)
}

// unpreparedArgs makes pgx send a statement with these arguments unprepared.
func unpreparedArgs(args []any) []any { return append([]any{pgx.QueryExecModeExec}, args...) }
