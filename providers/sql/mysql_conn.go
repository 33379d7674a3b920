package sqllease

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"

	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
)

// MySQLClient is a client library of MySQL and MariaDB. This module requires none: module
// providers/sql/mysql has one.
type MySQLClient struct {
	// Connector makes connections that take several statements in one request, and parameters that are not prepared. Each
	// implements driver.QueryerContext and driver.ExecerContext.
	Connector sqldriver.Connector
	// MaxConns is how many connections there are at most, 2 or more: one is for renewals.
	MaxConns int
	// ErrorNumber is the server's code in an error of the library; 0 if it has none.
	ErrorNumber func(error) int
}

type mysqlDatabase struct {
	*sql.DB
	number func(error) int
	size   int
}

func openMySQL(c *MySQLClient) mysqlDatabase {
	db := sql.OpenDB(sqlkit.MySQLSessions{Connector: c.Connector, Number: c.ErrorNumber})
	db.SetMaxOpenConns(c.MaxConns)
	db.SetMaxIdleConns(c.MaxConns)
	return mysqlDatabase{db, c.ErrorNumber, c.MaxConns}
}

// deadlocks bounds the repetitions of a request that the server has rolled back for the sake of another request.
const deadlocks = 20

// query runs statements that are sent at once. A connection on which they fail is closed, and so the rest of a transaction
// rolled back. If the server is of no use, so are the pool's idle connections, which query closes. A connection that has ended meanwhile
// has sent nothing, and all of the pool may have ended. The cure of a deadlock is a repetition.
func (d mysqlDatabase) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	for dead, locked := 0, 0; ; {
		err := d.once(ctx, statement, args, each)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, sqldriver.ErrBadConn) && dead <= d.size:
			dead++
		case sqlkit.Deadlocked(d.number(err)) && locked < deadlocks && ctx.Err() == nil:
			locked++
		default:
			if d.verdict(err).Close {
				dropIdle(d.DB, d.size)
			}
			return err
		}
	}
}

func (d mysqlDatabase) once(ctx context.Context, statement string, args []any, each func(scan) error) error {
	conn, err := d.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = viaSQL{conn}.query(ctx, statement, args, each)
	if err != nil {
		_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // tells the pool to close it
	}
	return err
}

// dropIdle closes the idle connections of a pool of ours.
func dropIdle(db *sql.DB, size int) {
	db.SetMaxIdleConns(0)
	db.SetMaxIdleConns(size)
}

// withoutWaiting runs statements that are refused if another transaction has locked a row.
type withoutWaiting struct{ mysqlDatabase }

func (d withoutWaiting) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return d.mysqlDatabase.query(ctx, sqlkit.WithoutWaiting(statement), args, each)
}
