package sqlserverlease

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"strconv"
	"strings"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
)

// settings begin each batch, so that the defaults of the server, of a user and of the application's sessions do not matter. With
// XACT_ABORT an error rolls the transaction back and ends the batch. Settings in a batch with parameters end with the batch.
// See https://learn.microsoft.com/sql/t-sql/statements/set-xact-abort-transact-sql.
const settings = `SET NOCOUNT ON; SET XACT_ABORT ON; SET IMPLICIT_TRANSACTIONS OFF; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET LOCK_TIMEOUT `

// The longest waits for a lock, in milliseconds. Each completes the SET LOCK_TIMEOUT at the end of settings.
const (
	lockWait   = "2000;\n"
	noLockWait = "0;\n"
)

// database is a pool of connections, either the provider's own or the application's.
type database struct {
	*sql.DB
	size int    // the most connections of the provider's own pool
	own  bool   // the pool is the provider's
	wait string // for a lock
}

// databaseOf returns the database and its maximum number of connections, or 0 for no limit.
func databaseOf(o Options, connector sqldriver.Connector) (db database, connections int) {
	if connector == nil {
		return database{DB: o.DB, wait: lockWait}, o.DB.Stats().MaxOpenConnections
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(o.MaxConns)
	pool.SetMaxIdleConns(o.MaxConns)
	return database{pool, o.MaxConns, true, lockWait}, o.MaxConns
}

// maxRepetitions bounds the repetitions of a request that the server has rolled back in favor of another request, and of a
// request that was not sent.
const maxRepetitions = 20

// Query runs a batch and calls the function each for every row. The function is nil for a change: see change. If the batch
// fails, its connection is closed, which rolls back an unfinished transaction. After a lost race there is no such transaction,
// and the connection is kept. If the server can't serve leases, Query also closes the idle connections of the provider's own
// pool. Query repeats a request that the server has certainly rolled back in favor of another request. It also repeats a
// request that was not sent because its connection had already ended: all connections of the pool may have ended.
func (d database) Query(ctx context.Context, statement string, args []any, each func(dialect.Scan) error) error {
	statement, args = nameParameters(settings+d.wait+statement, args)
	for dead, lost := 0, 0; ; {
		err := d.queryOnce(ctx, statement, args, each)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, sqldriver.ErrBadConn) && dead < maxRepetitions:
			dead++
		case repeatable(err, each) && lost < maxRepetitions && ctx.Err() == nil:
			lost++
		default:
			if d.own && verdict(err).Close {
				sqlkit.DropIdle(d.DB, d.size)
			}
			return err
		}
	}
}

// repeatable reports whether a batch may run again at once: it was a deadlock victim, or it failed on a row that another
// process has inserted. A change that fails on such a row has lost its race, and must first read the row.
func repeatable(err error, each func(dialect.Scan) error) bool {
	return isDeadlock(err) || each != nil && isDuplicate(err)
}

func (d database) queryOnce(ctx context.Context, statement string, args []any, each func(dialect.Scan) error) error {
	conn, err := d.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer endWith(ctx, conn)()
	if each == nil {
		_, err = conn.ExecContext(ctx, statement, args...)
	} else {
		err = dialect.ViaSQL{Querier: conn}.Query(ctx, statement, args, each)
	}
	if err != nil && !isDuplicate(err) {
		discard(conn)
	}
	return err
}

// discard makes the pool close a connection.
func discard(conn *sql.Conn) { _ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) }

// endWith closes a connection of the provider's own pool when a context ends, unless stop was
// called before.
func endWith(ctx context.Context, conn *sql.Conn) (stop func() bool) {
	stop = func() bool { return true }
	_ = conn.Raw(func(raw any) error {
		if s, own := raw.(*session); own {
			stop = providerkit.AfterFunc(ctx, s.netConns.hangUp)
		}
		return nil
	})
	return stop
}

// transact runs statements in a transaction that stays open between the client's requests, so the statements must not touch rows
// of leases.
func (d database) transact(ctx context.Context, do func(dialect.Statements) error) error {
	conn, err := d.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer endWith(ctx, conn)()
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		discard(conn)
		return err
	}
	if err = do(inTransaction{tx}); err == nil {
		err = tx.Commit()
	}
	if err != nil {
		_ = tx.Rollback() // a connection in a transaction can't be discarded
		discard(conn)
	}
	return err
}

type inTransaction struct{ *sql.Tx }

func (t inTransaction) Query(ctx context.Context, statement string, args []any, each func(dialect.Scan) error) error {
	statement, args = nameParameters(settings+lockWait+statement, args)
	return dialect.ViaSQL{Querier: t.Tx}.Query(ctx, statement, args, each)
}

// nameParameters names the parameters of a statement, "?", as go-mssqldb does: @p1, @p2 and so on. "?b" marks a text for a column
// of bytes, since the server does not convert text to bytes implicitly.
func nameParameters(statement string, args []any) (string, []any) {
	var b strings.Builder
	b.Grow(len(statement) + 4*len(args))
	all := append(make([]any, 0, len(args)), args...)
	for n := 1; ; n++ {
		before, rest, found := strings.Cut(statement, "?")
		b.WriteString(before)
		if !found {
			return b.String(), all
		}
		b.WriteString("@p" + strconv.Itoa(n))
		if statement, found = strings.CutPrefix(rest, "b"); found {
			all[n-1] = bytesOf(all[n-1])
		}
	}
}

func bytesOf(arg any) any {
	switch text := arg.(type) {
	case string:
		return []byte(text)
	case *string:
		return []byte(*text)
	}
	return arg
}
