package sqllease

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"strings"
)

// MySQLClient is a client library of MySQL and MariaDB. This module requires none: module
// providers/sql/mysql makes one.
type MySQLClient struct {
	// Connector makes connections that take several statements in one request. What a session needs is set
	// when it begins.
	Connector sqldriver.Connector
	// MaxConns is how many connections there are at most; 0 for as many as there are requests.
	MaxConns int
	// ErrorNumber is the server's code in an error of the library; 0 if it has none.
	ErrorNumber func(error) int
}

// mysqlSession is what the statements rely on. A session waits 2 s for a lock, also of one that changes
// tables: the server does not notice that a client has left while it waits. Transactions that are chained would never end.
const mysqlSession = `SET SESSION time_zone = '+00:00', autocommit = 1, completion_type = 'NO_CHAIN',
	sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', innodb_lock_wait_timeout = 2, lock_wait_timeout = 2;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED`

// mysqlConnector sets sessions up.
type mysqlConnector struct{ sqldriver.Connector }

func (c mysqlConnector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	session, ok := conn.(sqldriver.ExecerContext)
	if !ok {
		return nil, errors.Join(errors.New("the client library runs no statements without preparing them"), conn.Close())
	}
	if _, err := session.ExecContext(ctx, mysqlSession, nil); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func openMySQL(c *MySQLClient) *sql.DB {
	db := sql.OpenDB(mysqlConnector{c.Connector})
	db.SetMaxOpenConns(c.MaxConns)
	db.SetMaxIdleConns(max(c.MaxConns, 2))
	return db
}

// run runs one statement and tells how many rows it has changed.
func (m *mysql) run(ctx context.Context, statement string, args ...any) (int64, error) {
	result, err := m.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// transact runs statements that are sent at once, of which the last returns rows. A connection on which they failed is closed, and
// so what is left of a transaction rolled back.
func (m *mysql) transact(ctx context.Context, statements string, args []any, each func(scan) error) error {
	for n := 0; ; n++ {
		conn, err := m.db.Conn(ctx)
		if err != nil {
			return err
		}
		if err = query(ctx, conn, statements, args, each); err != nil {
			_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // tells the pool to close it
		}
		conn.Close()
		// Nothing was sent on a connection that has ended meanwhile. All of the pool's may have.
		if n > m.db.Stats().MaxOpenConnections || !errors.Is(err, sqldriver.ErrBadConn) {
			return err
		}
	}
}

// limited runs what may wait for renewals, who go first.
func (m *mysql) limited(ctx context.Context, do func() error) error {
	if err := m.limit.enter(ctx); err != nil {
		return err
	}
	defer m.limit.leave()
	return do()
}

func (m *mysql) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return m.limited(ctx, func() error { return query(ctx, m.db, statement, args, each) })
}

func (m *mysql) find(ctx context.Context, name, id string) (r mysqlRow, err error) {
	err = query(ctx, m.db, m.sql["read"], []any{name}, func(scan scan) error { return scan(r.columns()...) })
	r.complete(name, id)
	return r, err
}

// rows reads the rows of those names that there are.
func (m *mysql) rows(ctx context.Context, names []string) (map[string]*mysqlRow, error) {
	args := make([]any, len(names))
	for i := range names {
		args[i] = names[i]
	}
	found := make(map[string]*mysqlRow, len(names))
	err := m.named(ctx, m.sql["rows"]+strings.Repeat(", ?", len(names)-1)+")", args, func(r *mysqlRow) { found[r.Name] = r })
	return found, err
}

// named hands over rows that end with the name.
func (m *mysql) named(ctx context.Context, statement string, args []any, each func(*mysqlRow)) error {
	return query(ctx, m.db, statement, args, func(scan scan) error {
		r := &mysqlRow{}
		var name string
		err := scan(append(r.columns(), &name)...)
		r.complete(name, "")
		each(r)
		return err
	})
}

func (m *mysql) close() error {
	m.wakeups.Close()
	return m.db.Close()
}
