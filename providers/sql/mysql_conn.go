package sqllease

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// MySQLClient is a client library of MySQL and MariaDB. This module requires none: module
// providers/sql/mysql has one.
type MySQLClient struct {
	// Connector makes connections that take several statements in one request, and parameters without preparing them.
	Connector sqldriver.Connector
	// MaxConns is how many connections there are at most, 2 or more: one is for renewals.
	MaxConns int
	// ErrorNumber is the server's code in an error of the library; 0 if it has none.
	ErrorNumber func(error) int
}

// mysqlSession has the settings that the statements rely on. Names come first: the server or its init_connect may give a session another character
// set, and in some of them the last byte of a character and a backslash that escapes a quote are one character. The text itself
// has ASCII alone, which all character sets of clients read alike. A session waits 2 s for a lock, also of one that changes tables: the server
// does not notice that its client has left. A chained transaction would never end.
const mysqlSession = `SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET SESSION time_zone = '+00:00', autocommit = 1, completion_type = 'NO_CHAIN',
	sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', innodb_lock_wait_timeout = 2, lock_wait_timeout = 2;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED`

// mysqlConnector sets sessions up.
type mysqlConnector struct {
	sqldriver.Connector
	number func(error) int
}

func (c mysqlConnector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.signIn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err = conn.(sqldriver.ExecerContext).ExecContext(ctx, mysqlSession, nil); err == nil {
		err = quotesSafely(ctx, conn)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// mysqlQuoting asks how the session reads texts. mysqlQuoted is the answer for which the client library quotes parameters rightly.
const (
	mysqlQuoting = "SELECT CONCAT_WS(' ', @@character_set_client, @@character_set_connection, @@sql_mode LIKE '%NO_BACKSLASH_ESCAPES%')"
	mysqlQuoted  = "utf8mb4 utf8mb4 0"
)

// quotesSafely refuses a session that reads texts otherwise than the client library writes them: a proxy may not pass settings on.
func quotesSafely(ctx context.Context, conn sqldriver.Conn) error {
	rows, err := conn.(sqldriver.QueryerContext).QueryContext(ctx, mysqlQuoting, nil)
	if err != nil {
		return err
	}
	found := make([]sqldriver.Value, 1)
	err = errors.Join(rows.Next(found), rows.Close())
	if text := fmt.Sprintf("%s", found[0]); err == nil && text != mysqlQuoted {
		err = fmt.Errorf("%w: the session reads texts as %q, where %q was set: a proxy may be in between", abstractions.ErrNotSetUp, text, mysqlQuoted)
	}
	return err
}

// signIn connects. A function of the user's in the Connector may get the password. Its error says nothing of the server, whose
// own answers have numbers.
func (c mysqlConnector) signIn(ctx context.Context) (conn sqldriver.Conn, err error) {
	var answer error // of the server, or of the way to it
	err = providerkit.GuardCredentials(nil, func() (err error) {
		if conn, err = c.Connector.Connect(ctx); err != nil && (c.number(err) != 0 || ctx.Err() != nil || ofConnection(err)) {
			answer, err = err, nil
		}
		return err
	})
	return conn, cmp.Or(err, answer)
}

// ofConnection reports whether an error is of the connection itself.
func ofConnection(err error) bool {
	var network net.Error
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	return errors.Is(err, sqldriver.ErrBadConn) || errors.As(err, &network) || errors.As(err, &untrusted) || errors.As(err, &plain)
}

type mysqlDatabase struct{ *sql.DB }

func openMySQL(c *MySQLClient) mysqlDatabase {
	db := sql.OpenDB(mysqlConnector{c.Connector, c.ErrorNumber})
	db.SetMaxOpenConns(c.MaxConns)
	db.SetMaxIdleConns(c.MaxConns)
	return mysqlDatabase{db}
}

// query runs statements that are sent at once. A connection on which they fail is closed, and so what is left of a transaction
// rolled back. On one that has ended meanwhile nothing was sent, and so may all of the pool have.
func (d mysqlDatabase) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	for n := 0; ; n++ {
		conn, err := d.Conn(ctx)
		if err != nil {
			return err
		}
		err = viaSQL{conn}.query(ctx, statement, args, each)
		if err != nil {
			_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // tells the pool to close it
		}
		_ = conn.Close()
		if n > d.Stats().MaxOpenConnections || !errors.Is(err, sqldriver.ErrBadConn) {
			return err
		}
	}
}

// withoutWaiting runs statements that are refused if another transaction has locked a row: at once by MariaDB, after 1 s by MySQL.
type withoutWaiting struct{ mysqlDatabase }

func (d withoutWaiting) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	const wait = "SET SESSION innodb_lock_wait_timeout = "
	return d.mysqlDatabase.query(ctx, wait+"0; "+statement+"; "+wait+"2", args, each)
}
