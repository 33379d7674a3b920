package sqllease

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"time"

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
	size    int                                      // the most connections at a time; 0 if there is no bound
	listen  func(context.Context) (*pgx.Conn, error) // opens one outside the pool; nil if the driver can't
	close   func()                                   // closes what is our own
}

// query runs one statement, and hands over each of its rows. It asks pgx itself where it
// can: through database/sql a request takes a goroutine and some fifty allocations more.
func (d *pgDatabase) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	if !d.native {
		return query(ctx, d.querier, statement, args, each)
	}
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(driverConn any) error {
		rows, err := driverConn.(*stdlib.Conn).Conn().Query(ctx, statement, args...)
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
	})
}

// connectTimeout bounds attempts to connect, also to have a query cancelled, unless
// the URL has a connect_timeout.
const connectTimeout = 5 * time.Second

// openPgx makes a pool of our own. It doesn't connect. A connection on which a call
// was given up leaves it at once, where a pgxpool would wait until pgx has had the
// call cancelled, for up to 15 s on a dead one (pgx v5.12, pgconn.asyncClose).
func openPgx(dsn string) (pgDatabase, error) {
	config, err := pgxConfig(dsn)
	if err != nil {
		return pgDatabase{}, err
	}
	db, size := stdlib.OpenDB(*config.ConnConfig), int(config.MaxConns)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	db.SetConnMaxLifetime(config.MaxConnLifetime)
	db.SetConnMaxIdleTime(config.MaxConnIdleTime)
	listen := func(ctx context.Context) (*pgx.Conn, error) { return connectToListen(ctx, config.ConnConfig.Copy()) }
	return pgDatabase{querier: db, db: db, native: true, size: size, listen: listen, close: func() { _ = db.Close() }}, nil
}

// pgxConfig understands the parameters of a pgxpool, too.
func pgxConfig(dsn string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	if config.MinConns > 0 || config.MinIdleConns > 0 {
		return nil, errors.New("connections are made when they are needed")
	}
	if _, set := config.ConnConfig.RuntimeParams["application_name"]; !set {
		config.ConnConfig.RuntimeParams["application_name"] = "leasing"
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
func fromPool(pool *pgxpool.Pool) pgDatabase {
	db := stdlib.OpenDBFromPool(pool)
	listen := func(ctx context.Context) (*pgx.Conn, error) {
		config := pool.Config()
		if config.BeforeConnect != nil {
			if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
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
	return pgDatabase{querier: db, db: db, native: true, size: int(pool.Config().MaxConns), listen: listen, close: func() { _ = db.Close() }}
}

// fromDB uses the user's database. Listeners connect as its latest connection did,
// if that is pgx's.
func fromDB(db *sql.DB) pgDatabase {
	d := pgDatabase{querier: db, db: db, size: db.Stats().MaxOpenConnections, close: func() {}}
	if _, ok := db.Driver().(*stdlib.Driver); !ok {
		return d
	}
	d.native = true
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

// connectToListen opens a connection whose notifications are kept for
// WaitForNotification. The configuration of a connection that exists would
// hand them to that one.
func connectToListen(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	config.OnNotification = nil
	return pgx.ConnectConfig(ctx, config)
}
