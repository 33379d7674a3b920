package sqllease

import (
	"context"
	"database/sql"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// scan reads the columns of one row.
type scan func(dest ...any) error

// querier runs one statement. Both *pgxpool.Pool and *sql.DB can, and so can a
// transaction of either.
type querier interface {
	query(ctx context.Context, statement string, args []any, each func(scan) error) error
}

// pgDatabase is the user's or our own way to PostgreSQL.
type pgDatabase interface {
	querier
	// begin runs do in a transaction.
	begin(ctx context.Context, do func(querier) error) error
	// listen opens a connection of its own, outside the pool; nil if the
	// driver can't.
	listen() func(context.Context) (*pgx.Conn, error)
	// size is the most connections at a time; 0 if there is no bound.
	size() int
	close() error
}

type pgxQuerier interface {
	Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error)
}

type pgxRunner struct{ db pgxQuerier }

func (r pgxRunner) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	rows, err := r.db.Query(ctx, statement, args...)
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

type pgxDatabase struct {
	pool *pgxpool.Pool
	own  bool
}

func newPgxDatabase(pool *pgxpool.Pool, own bool) *pgxDatabase {
	return &pgxDatabase{pool: pool, own: own}
}

func (d *pgxDatabase) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer releaseConn(conn)
	return pgxRunner{conn}.query(ctx, statement, args, each)
}

func (d *pgxDatabase) begin(ctx context.Context, do func(querier) error) error {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer releaseConn(conn)
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return do(pgxRunner{tx}) })
}

// closeGrace bounds how long a cancelled query may keep its place in the pool. pgx
// keeps it until the server has confirmed the cancellation, up to 15 s on a dead
// connection (pgx v5.12, pgconn.asyncClose); a pool of one could renew nothing meanwhile.
const closeGrace = time.Second

// releaseConn returns a connection to its pool. A dead one loses its socket after
// closeGrace.
func releaseConn(conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() {
		socket := conn.Conn().PgConn().Conn()
		time.AfterFunc(closeGrace, func() { _ = socket.Close() })
	}
	conn.Release()
}

// listen connects as the pool does, hooks included, but takes up no place in it.
func (d *pgxDatabase) listen() func(context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) {
		config := d.pool.Config()
		if config.BeforeConnect != nil {
			if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
				return nil, err
			}
		}
		conn, err := connectToListen(ctx, config.ConnConfig)
		if err != nil || config.AfterConnect == nil {
			return conn, err
		}
		if err := config.AfterConnect(ctx, conn); err != nil {
			hangUp(conn)
			return nil, err
		}
		return conn, nil
	}
}

// connectToListen opens a connection whose notifications are kept for
// WaitForNotification. The configuration of a connection that exists would
// hand them to that one.
func connectToListen(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	config.OnNotification = nil
	return pgx.ConnectConfig(ctx, config)
}

func (d *pgxDatabase) size() int { return int(d.pool.Config().MaxConns) }

func (d *pgxDatabase) close() error {
	if d.own {
		d.pool.Close()
	}
	return nil
}

type sqlQuerier interface {
	QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
}

type sqlRunner struct{ db sqlQuerier }

func (r sqlRunner) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	rows, err := r.db.QueryContext(ctx, statement, args...)
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

// stdDatabase is a *sql.DB, which is always the user's.
type stdDatabase struct {
	sqlRunner
	db *sql.DB
}

func newStdDatabase(db *sql.DB) *stdDatabase {
	return &stdDatabase{sqlRunner: sqlRunner{db}, db: db}
}

func (d *stdDatabase) begin(ctx context.Context, do func(querier) error) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if err := do(sqlRunner{tx}); err != nil {
		return err
	}
	return tx.Commit()
}

// listen connects as the latest connection of the pool did, if it is pgx's.
func (d *stdDatabase) listen() func(context.Context) (*pgx.Conn, error) {
	if _, ok := d.db.Driver().(*stdlib.Driver); !ok {
		return nil
	}
	return func(ctx context.Context) (*pgx.Conn, error) {
		conn, err := d.db.Conn(ctx)
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
		return connectToListen(ctx, config)
	}
}

func (d *stdDatabase) size() int    { return d.db.Stats().MaxOpenConnections }
func (d *stdDatabase) close() error { return nil }

// connectTimeout bounds attempts to connect that outlive their caller, unless
// the URL has a connect_timeout, and those of the driver to have a query cancelled.
// Close waits for them.
const connectTimeout = 5 * time.Second

// openPgx makes a pool of our own. It doesn't connect.
func openPgx(dsn string) (*pgxDatabase, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	if _, set := config.ConnConfig.RuntimeParams["application_name"]; !set {
		config.ConnConfig.RuntimeParams["application_name"] = "leasing"
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	config.ConnConfig.DialFunc = within(config.ConnConfig.ConnectTimeout, config.ConnConfig.DialFunc)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, err
	}
	return newPgxDatabase(pool, true), nil
}

// within bounds each attempt of a dialer, whoever makes it.
func within(timeout time.Duration, dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return dial(ctx, network, address)
	}
}
