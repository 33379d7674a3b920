package mysqllease

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"

	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
)

// database is a pool of sessions, of the provider's own.
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

// deadlocks bounds the repetitions of a request that the server has rolled back for the sake of another request.
const deadlocks = 20

// Query runs statements that are sent at once. A connection on which they fail is closed, and so the rest of a transaction
// rolled back. If the server is of no use, so are the pool's idle connections, which query closes. A connection that has ended meanwhile
// has sent nothing, and all of the pool may have ended. The cure of a deadlock is a repetition.
func (d database) Query(ctx context.Context, statement string, args []any, each func(dialect.Scan) error) error {
	for dead, locked := 0, 0; ; {
		err := d.once(ctx, statement, args, each)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, sqldriver.ErrBadConn) && dead <= d.size:
			dead++
		case deadlocked(errorNumber(err)) && locked < deadlocks && ctx.Err() == nil:
			locked++
		default:
			if verdict(err).Close {
				sqlkit.DropIdle(d.DB, d.size)
			}
			return err
		}
	}
}

func (d database) once(ctx context.Context, statement string, args []any, each func(dialect.Scan) error) error {
	conn, err := d.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = dialect.ViaSQL{Querier: conn}.Query(ctx, statement, args, each)
	if err != nil {
		_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // tells the pool to close it
	}
	return err
}

// withoutWaiting runs statements that are refused if another transaction has locked a row.
type withoutWaiting struct{ database }

func (d withoutWaiting) Query(ctx context.Context, statement string, args []any, each func(dialect.Scan) error) error {
	return d.database.Query(ctx, withoutWait(statement), args, each)
}
