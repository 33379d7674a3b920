package mysqllease

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"

	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
)

// database is the provider's own pool of sessions.
type database struct {
	*sql.DB
	size int
}

func openDatabase(connector sqldriver.Connector, size int) database {
	db := sql.OpenDB(sessions{connector})
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return database{db, size}
}

// deadlocks bounds the repetitions of a request that the server has rolled back in favor of another request.
const deadlocks = 20

// Query runs statements that are sent as a whole. If they fail, their connection is closed, which rolls back the rest of a
// transaction. If the server can't serve requests, Query also closes the pool's idle connections. Query repeats a request after a
// deadlock, and also a request whose connection had already ended: nothing was sent, and all connections of the pool may have
// ended.
func (d database) Query(ctx context.Context, statement string, args []any, each func(dialect.Scan) error) error {
	for dead, locked := 0, 0; ; {
		err := d.queryOnce(ctx, statement, args, each)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, sqldriver.ErrBadConn) && dead <= d.size:
			dead++
		case isDeadlock(errorNumber(err)) && locked < deadlocks && ctx.Err() == nil:
			locked++
		default:
			if verdict(err).Close {
				sqlkit.DropIdle(d.DB, d.size)
			}
			return err
		}
	}
}

func (d database) queryOnce(ctx context.Context, statement string, args []any, each func(dialect.Scan) error) error {
	conn, err := d.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = dialect.ViaSQL{Querier: conn}.Query(ctx, statement, args, each)
	if err != nil {
		_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // makes the pool close it
	}
	return err
}

// noWait runs statements that fail if another transaction has locked a row.
type noWait struct{ database }

func (d noWait) Query(ctx context.Context, statement string, args []any, each func(dialect.Scan) error) error {
	return d.database.Query(ctx, withoutWait(statement), args, each)
}
