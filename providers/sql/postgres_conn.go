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

// pgDatabase is the way to PostgreSQL: our own pool, or one of the user's.
type pgDatabase struct {
	querier // of db
	db      *sql.DB
	size    int                                      // the most connections at a time; 0 if there is no bound
	listen  func(context.Context) (*pgx.Conn, error) // opens one outside the pool; nil if the driver can't
	close   func()                                   // closes what is our own
}

// connectTimeout bounds attempts to connect that outlive their caller, unless
// the URL has a connect_timeout, and those of the driver to have a query cancelled.
// Close waits for them.
const connectTimeout = 5 * time.Second

// openPgx makes a pool of our own. It doesn't connect.
func openPgx(dsn string) (pgDatabase, error) {
	config, err := pgxConfig(dsn)
	if err != nil {
		return pgDatabase{}, err
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return pgDatabase{}, err
	}
	d := fromPool(pool)
	d.close = func() {
		_ = d.db.Close()
		pool.Close()
	}
	return d, nil
}

func pgxConfig(dsn string) (*pgxpool.Config, error) {
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
	config.BeforeClose = closeSoon
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

// closeGrace bounds how long a cancelled query may keep its place in the pool. pgx
// keeps it until the server has confirmed the cancellation, up to 15 s on a dead
// connection (pgx v5.12, pgconn.asyncClose); a pool of one could renew nothing meanwhile.
const closeGrace = time.Second

// closeSoon closes the socket of a connection that pgx is closing already.
func closeSoon(conn *pgx.Conn) {
	if conn.IsClosed() {
		socket := conn.PgConn().Conn()
		time.AfterFunc(closeGrace, func() { _ = socket.Close() })
	}
}

// fromPool uses a pool, and leaves it open. Listeners connect as the pool does, hooks
// included, but take up no place in it.
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
	return pgDatabase{querier: db, db: db, size: int(pool.Config().MaxConns), listen: listen, close: func() { _ = db.Close() }}
}

// fromDB uses the user's database. Listeners connect as its latest connection did,
// if that is pgx's.
func fromDB(db *sql.DB) pgDatabase {
	d := pgDatabase{querier: db, db: db, size: db.Stats().MaxOpenConnections, close: func() {}}
	if _, ok := db.Driver().(*stdlib.Driver); !ok {
		return d
	}
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
