package pgkit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// Settings is the query for the settings that [Session] checks, in one row of two columns.
const Settings = "SELECT pg_catalog.current_setting('default_transaction_isolation') <> 'read committed', pg_catalog.current_setting('client_encoding')"

// Session reads the row of [Settings]. It reports whether transactions are stricter than READ COMMITTED by
// default. It refuses an encoding in which a name would be read as another name. SQL_ASCII passes UTF-8 on
// unchanged.
func Session(scan func(dest ...any) error) (strict bool, err error) {
	var encoding string
	if err := scan(&strict, &encoding); err != nil {
		return false, err
	}
	if encoding != "UTF8" && encoding != "SQL_ASCII" {
		return false, fmt.Errorf("%w: client_encoding is %s for these connections, so that others would not find the names that they use: set it to UTF8", abstractions.ErrNotSetUp, encoding)
	}
	return strict, nil
}

// ListenAs returns a function that connects as a pool does, hooks included, and takes up no place in the pool.
func ListenAs(pool *pgxpool.Pool) func(context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) {
		config := pool.Config()
		if config.BeforeConnect != nil {
			err := providerkit.GuardCredentials(nil, func() error { return config.BeforeConnect(ctx, config.ConnConfig) })
			if err != nil {
				return nil, err
			}
		}
		conn, err := Listen(ctx, config.ConnConfig)
		if err == nil && config.AfterConnect != nil {
			if err = config.AfterConnect(ctx, conn); err != nil {
				HangUp(conn)
			}
		}
		return conn, err
	}
}

// ListenLike returns a function that connects with the configuration of a database's latest connection. It returns nil if the database's driver is not
// pgx's.
func ListenLike(db *sql.DB) func(context.Context) (*pgx.Conn, error) {
	if _, ok := db.Driver().(*stdlib.Driver); !ok {
		return nil
	}
	return func(ctx context.Context) (*pgx.Conn, error) {
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		var config *pgx.ConnConfig
		err = conn.Raw(func(driverConn any) error {
			config = driverConn.(*stdlib.Conn).Conn().Config()
			return nil
		})
		if err != nil {
			return nil, err
		}
		return Listen(ctx, config)
	}
}

// Listen opens a connection whose notifications are kept for WaitForNotification. An existing connection's configuration
// would pass them to that connection.
func Listen(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	config.OnNotification = nil
	return pgx.ConnectConfig(ctx, config)
}

// ErrPooled says that a pooler gives each transaction another server process, so LISTEN has no effect.
var ErrPooled = errors.New("LISTEN has no effect behind a pooler that gives each transaction another session")

// ServerProcess is the query for the ID of the server process that runs the query.
const ServerProcess = "SELECT pg_catalog.pg_backend_pid()"

// Sticks checks whether a connection may listen. A standby refuses LISTEN until it is promoted; this check causes no errors
// in its log. The error is [ErrPooled] if a pooler gives the connection another session, or gives its session to another
// client. other runs ServerProcess on another connection.
func Sticks(ctx context.Context, conn *pgx.Conn, other func(context.Context) (int, error)) error {
	const rounds = 5 // one round is enough unless the pooler is busy
	first := 0
	for n := range rounds {
		var pid int
		var standby bool
		// The simple protocol prepares nothing.
		err := conn.QueryRow(ctx, ServerProcess+", pg_catalog.pg_is_in_recovery()", pgx.QueryExecModeSimpleProtocol).Scan(&pid, &standby)
		switch {
		case err != nil:
			return err
		case standby:
			return fmt.Errorf("%w: the server is a standby, which does not support LISTEN", abstractions.ErrUnavailable)
		case n == 0 && pid == int(conn.PgConn().PID()): // no pooler: it would have made up the PID in the handshake
			return nil
		case n > 0 && pid != first:
			return ErrPooled
		}
		first = pid
		if pid, err = other(ctx); err != nil {
			return err
		} else if pid == first {
			return ErrPooled
		}
	}
	return nil
}
