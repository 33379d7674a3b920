package postgreslease

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/netdial"
	"github.com/distributedleasing/leasing/abstractions/providerkit/wakeup"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/postgres/pgkit"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// pgDatabase is the connection to PostgreSQL: our own pool, or a pool or database of the application.
type pgDatabase struct {
	dialect.Querier // of db
	db              *sql.DB
	pool            *pgxpool.Pool                            // the application's, behind db; otherwise nil
	isPgx           bool                                     // the driver is pgx
	hasHooks        bool                                     // the pool is the application's, whose hooks may fetch passwords
	size            int                                      // the most connections at a time; 0 if there is no bound
	listen          func(context.Context) (*pgx.Conn, error) // opens a connection outside the pool; nil if the driver can't
	field           string                                   // the field of Options, if the pool is the application's
	full            func() bool                              // reports whether all connections of the application's pool are in use; nil if the pool is our own
	drop            func(context.Context)                    // closes the idle connections
	close           func()                                   // closes our own pool
	strictIsolation atomic.Bool                              // transactions are stricter than READ COMMITTED by default
	exec            atomic.Bool                              // prepared statements are forgotten
	pooled          atomic.Bool                              // connections do not keep their sessions, so none can listen
	used            atomic.Int64                             // when a connection of the application was last used, in ns since 1970
}

// connectTimeout bounds attempts to connect, including those that cancel a query,
// unless the URL has a connect_timeout.
const connectTimeout = 5 * time.Second

// openPgx makes a pool of our own. It doesn't connect. A connection whose call was
// given up leaves the pool at once. A pgxpool would keep it until pgx has cancelled the
// call, for up to 15 s on a dead connection (pgx v5.12, pgconn.asyncClose).
func openPgx(dsn string) (*pgDatabase, error) {
	config, err := pgxConfig(dsn)
	if err != nil {
		return nil, err
	}
	live := &pgLive{dsn: dsn, good: config.ConnConfig}
	d := ownDatabase(sql.OpenDB(live), config.MaxConns)
	d.db.SetMaxOpenConns(d.size)
	d.db.SetMaxIdleConns(d.size)
	d.db.SetConnMaxLifetime(config.MaxConnLifetime)
	d.db.SetConnMaxIdleTime(config.MaxConnIdleTime)
	d.listen = live.listen
	d.drop = func(context.Context) { sqlkit.DropIdle(d.db, d.size) }
	return d, nil
}

// ownDatabase returns a database that closes with the provider.
func ownDatabase(db *sql.DB, size int32) *pgDatabase {
	return &pgDatabase{Querier: db, db: db, isPgx: true, size: int(size), close: func() { _ = db.Close() }}
}

// pgxConfig parses a DSN, which may have the parameters of a pgxpool.
func pgxConfig(dsn string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	if err = onePassword(dsn, config.ConnConfig); err != nil {
		return nil, err
	}
	if config.MinConns > 0 || config.MinIdleConns > 0 {
		return nil, errors.New("connections are made when they are needed")
	}
	for parameter, value := range map[string]string{"application_name": "leasing", "client_encoding": "UTF8"} {
		if _, set := config.ConnConfig.RuntimeParams[parameter]; !set {
			config.ConnConfig.RuntimeParams[parameter] = value
		}
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	config.ConnConfig.DialFunc = dialWithin(config.ConnConfig.ConnectTimeout, netdial.New().DialContext)
	return config, nil
}

// dialWithin bounds each dial, for all callers of the dialer.
func dialWithin(timeout time.Duration, dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return dial(ctx, network, address)
	}
}

// poolDatabase uses the application's pool.
func poolDatabase(pool *pgxpool.Pool) *pgDatabase {
	d := ownDatabase(stdlib.OpenDBFromPool(pool), pool.Config().MaxConns)
	d.pool, d.hasHooks, d.listen = pool, true, pgkit.ListenAs(pool)
	d.drop = func(context.Context) { pgkit.DropPool(pool) }
	d.field, d.full = "Pool", func() bool { return pool.Stat().AcquiredConns() >= pool.Config().MaxConns }
	return d
}

// sqlDatabase uses the application's database.
func sqlDatabase(db *sql.DB) *pgDatabase {
	d := &pgDatabase{Querier: db, db: db, size: db.Stats().MaxOpenConnections, close: func() {}}
	d.listen = pgkit.ListenLike(db)
	d.isPgx = d.listen != nil
	d.hasHooks = d.isPgx
	d.drop = func(ctx context.Context) { pgkit.DropDB(ctx, db) }
	d.field, d.full = "DB", func() bool { stats := db.Stats(); return d.size > 0 && stats.InUse >= d.size }
	return d
}

// fromPool takes a connection from the application's pool.
func (d *pgDatabase) fromPool(ctx context.Context) (conn *pgxpool.Conn, err error) {
	if d.mayBeStale() {
		conn, err = pgkit.AcquireChecked(ctx, d.pool)
	} else {
		conn, err = d.pool.Acquire(ctx)
	}
	return conn, d.noteTaken(ctx, err)
}

// fromDB takes a connection from the database. Our own connections are checked by their connector.
func (d *pgDatabase) fromDB(ctx context.Context) (conn *sql.Conn, err error) {
	if d.hasHooks && d.mayBeStale() {
		conn, err = pgkit.ConnChecked(ctx, d.db)
	} else {
		conn, err = d.db.Conn(ctx)
	}
	return conn, d.noteTaken(ctx, err)
}

// mayBeStale reports whether the application's connections have been unused for so long that idle ones have to be checked.
func (d *pgDatabase) mayBeStale() bool {
	last := d.used.Load()
	return last != 0 && time.Now().UnixNano()-last > int64(sqlkit.Idle)
}

// noteTaken records that a connection was taken, or explains the error. The hooks of an application's pool may fetch passwords.
// Errors from the hooks say nothing about the server. The server's own errors are *pgconn.ConnectError.
func (d *pgDatabase) noteTaken(ctx context.Context, err error) error {
	if err == nil {
		d.used.Store(time.Now().UnixNano())
		return nil
	}
	if d.full != nil && ctx.Err() != nil && d.full() {
		return fmt.Errorf("no connection became free of Options.%s, which has %d at most: a transaction of the caller's own may have the last one: %w", d.field, d.size, err)
	}
	if answered := (*pgconn.ConnectError)(nil); !d.hasHooks || ctx.Err() != nil || errors.Is(err, sqldriver.ErrBadConn) || errors.As(err, &answered) {
		return err
	}
	return providerkit.NewCredentialError(err, false)
}

// wake listens for the waiters of a provider. Once it has found a pooler that gives each transaction another session, it returns
// ErrPolls.
func (d *pgDatabase) wake(ctx context.Context, w *dialect.Wakeups) (wakeup.Connection, error) {
	if d.listen == nil || d.pooled.Load() {
		return nil, dialect.ErrPolls
	}
	conn, err := d.listen(ctx)
	if err != nil {
		return nil, err
	}
	err = pgkit.Sticks(ctx, conn, func(ctx context.Context) (pid int, err error) {
		err = d.Query(ctx, pgkit.ServerProcess, nil, func(scan dialect.Scan) error { return scan(&pid) })
		return pid, err
	})
	if err == nil {
		// The lock shows, for as long as the connection lives, that the process listens: see
		// waiters.sql.
		lock := int64(binary.BigEndian.Uint64(w.ChannelBytes))
		_, err = conn.Exec(ctx, fmt.Sprintf("LISTEN leasing_%s; SELECT pg_catalog.pg_try_advisory_lock_shared(%d)", w.Channel, lock))
	}
	if err == nil {
		return listener{conn, w}, nil
	}
	pgkit.HangUp(conn)
	if errors.Is(err, pgkit.ErrPooled) {
		d.pooled.Store(true)
		err = dialect.ErrPolls
	}
	return nil, err
}

// listener is a connection that listens for all the waiters of a provider.
type listener struct {
	conn *pgx.Conn
	to   *dialect.Wakeups
}

func (l listener) Receive(ctx context.Context) (id string, err error) {
	notification, err := l.conn.WaitForNotification(ctx)
	if err != nil {
		return "", err
	}
	return l.to.Message(notification.Payload), nil
}

func (l listener) Ping(ctx context.Context) error { return l.conn.Ping(ctx) }

func (l listener) Close() { pgkit.HangUp(l.conn) }
