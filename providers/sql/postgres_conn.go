package sqllease

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
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// pgDatabase is the way to PostgreSQL: our own pool, or one of the user's.
type pgDatabase struct {
	querier // of db
	db      *sql.DB
	native  bool                                     // the driver is pgx
	hooked  bool                                     // it is the user's, whose hooks may get passwords
	size    int                                      // the most connections at a time; 0 if there is no bound
	listen  func(context.Context) (*pgx.Conn, error) // opens one outside the pool; nil if the driver can't
	close   func()                                   // closes what is our own
	strict  atomic.Bool                              // transactions are stricter than READ COMMITTED unless they say so
}

// connectTimeout bounds attempts to connect, also to have a query cancelled, unless
// the URL has a connect_timeout.
const connectTimeout = 5 * time.Second

// openPgx makes a pool of our own. It doesn't connect. A connection on which a call
// was given up leaves it at once, where a pgxpool would wait until pgx has had the
// call cancelled, for up to 15 s on a dead one (pgx v5.12, pgconn.asyncClose).
func openPgx(dsn string) (*pgDatabase, error) {
	config, err := pgxConfig(dsn)
	if err != nil {
		return nil, err
	}
	live := &pgLive{dsn: dsn, good: config.ConnConfig}
	d := ownPgx(sql.OpenDB(live), config.MaxConns)
	d.db.SetMaxOpenConns(d.size)
	d.db.SetMaxIdleConns(d.size)
	d.db.SetConnMaxLifetime(config.MaxConnLifetime)
	d.db.SetConnMaxIdleTime(config.MaxConnIdleTime)
	d.listen = live.listen
	return d, nil
}

// ownPgx is a database that closes with the provider.
func ownPgx(db *sql.DB, size int32) *pgDatabase {
	return &pgDatabase{querier: db, db: db, native: true, size: int(size), close: func() { _ = db.Close() }}
}

// pgxConfig understands the parameters of a pgxpool, too.
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
	config.ConnConfig.DialFunc = within(config.ConnConfig.ConnectTimeout, config.ConnConfig.DialFunc)
	return config, nil
}

// within bounds each attempt of a dialer, whoever makes it.
func within(timeout time.Duration, dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return dial(ctx, network, address)
	}
}

// fromPool uses the user's pool. Listeners connect as it does, hooks included, but take
// up no place in it.
func fromPool(pool *pgxpool.Pool) *pgDatabase {
	d := ownPgx(stdlib.OpenDBFromPool(pool), pool.Config().MaxConns)
	d.hooked = true
	d.listen = func(ctx context.Context) (*pgx.Conn, error) {
		config := pool.Config()
		if config.BeforeConnect != nil {
			if err := beforeConnect(ctx, config); err != nil {
				return nil, err
			}
		}
		conn, err := connectToListen(ctx, config.ConnConfig)
		if err == nil && config.AfterConnect != nil {
			if err = config.AfterConnect(ctx, conn); err != nil {
				hangUp(conn)
			}
		}
		return conn, err
	}
	return d
}

func beforeConnect(ctx context.Context, config *pgxpool.Config) error {
	return providerkit.GuardCredentials(nil, func() error { return config.BeforeConnect(ctx, config.ConnConfig) })
}

// connection is one of the pool. The hooks of a user's pool get its passwords, and their errors say
// nothing of the server: its own answers are *pgconn.ConnectError.
func (d *pgDatabase) connection(ctx context.Context) (*sql.Conn, error) {
	conn, err := d.db.Conn(ctx)
	if err == nil || !d.hooked || ctx.Err() != nil || errors.Is(err, sqldriver.ErrBadConn) {
		return conn, err
	}
	if answered := (*pgconn.ConnectError)(nil); errors.As(err, &answered) {
		return nil, err
	}
	return nil, providerkit.NewCredentialError(err, false)
}

// fromDB uses the user's database. Listeners connect as its latest connection did,
// if that is pgx's.
func fromDB(db *sql.DB) *pgDatabase {
	d := &pgDatabase{querier: db, db: db, size: db.Stats().MaxOpenConnections, close: func() {}}
	if _, ok := db.Driver().(*stdlib.Driver); !ok {
		return d
	}
	d.native, d.hooked = true, true
	d.listen = func(ctx context.Context) (*pgx.Conn, error) {
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
		return connectToListen(ctx, config)
	}
	return d
}

// wake listens for the waiters of a provider.
func (d *pgDatabase) wake(ctx context.Context, w *wakeups) (providerkit.Connection, error) {
	if d.listen == nil {
		return nil, errPolls
	}
	conn, err := d.listen(ctx)
	if err != nil {
		return nil, err
	}
	// The lock says that somebody listens, for as long as the connection lives: see waiters.sql.
	lock := int64(binary.BigEndian.Uint64(w.channel))
	if _, err := conn.Exec(ctx, fmt.Sprintf("LISTEN leasing_%s; SELECT pg_catalog.pg_try_advisory_lock_shared(%d)", w.Channel, lock)); err != nil {
		hangUp(conn)
		return nil, err
	}
	return listener{conn, w}, nil
}

// listener is a connection that listens for all the waiters of a provider.
type listener struct {
	conn *pgx.Conn
	to   *wakeups
}

func (l listener) Receive(ctx context.Context) (id string, err error) {
	notification, err := l.conn.WaitForNotification(ctx)
	if err != nil {
		return "", err
	}
	return l.to.message(notification.Payload), nil
}

func (l listener) Ping(ctx context.Context) error { return l.conn.Ping(ctx) }

func (l listener) Close() { hangUp(l.conn) }

func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}

// connectToListen opens a connection whose notifications are kept for
// WaitForNotification. The configuration of a connection that exists would
// hand them to that one.
func connectToListen(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	config.OnNotification = nil
	return pgx.ConnectConfig(ctx, config)
}
