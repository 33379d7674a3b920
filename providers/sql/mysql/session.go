package mysqllease

import (
	"cmp"
	"context"
	"crypto/tls"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
)

// sessionSettings has the settings that statements rely on. SET NAMES comes first: the server or its init_connect may give a
// session another character set, in which the backslash that escapes a quote may be read as part of the preceding character. The
// settings are in ASCII, which is the same in all client character sets. A session waits at most 2 s for a lock, even while a
// table is being altered, since the server does not notice that its client has left. With chained transactions, a transaction
// would always be open. Safe updates would refuse a join that updates many rows.
const sessionSettings = `SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET SESSION time_zone = '+00:00', autocommit = 1, completion_type = 'NO_CHAIN', sql_safe_updates = 0,
	sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', innodb_lock_wait_timeout = 2, lock_wait_timeout = 2;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED`

// withoutWait makes a statement fail if another transaction has locked a row: at once on MariaDB, and after 1 s on MySQL, which
// refuses 0 in strict mode.
func withoutWait(statement string) string {
	const wait = "SET SESSION innodb_lock_wait_timeout = "
	return wait + "IF(VERSION() LIKE '%MariaDB%', 0, 1); " + statement + "; " + wait + "2"
}

// sessions is a connector whose sessions have the settings that our statements need. It checks connections after an idle
// period.
type sessions struct{ sqldriver.Connector }

// Connect implements sqldriver.Connector.
func (c sessions) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.signIn(ctx)
	if err != nil {
		return nil, err
	}
	session := conn.(driverConn)
	if _, err = session.ExecContext(ctx, sessionSettings, nil); err == nil {
		err = quotesSafely(ctx, session)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &checkedConn{session, time.Now()}, nil
}

// driverConn is a connection that can run a statement without a Prepare.
type driverConn interface {
	sqldriver.Conn
	sqldriver.QueryerContext
	sqldriver.ExecerContext
}

// checkedConn is a connection that is checked after an idle period. It has the methods that package sql
// looks for.
type checkedConn struct {
	driverConn
	used time.Time
}

// ResetSession implements sqldriver.SessionResetter.
func (c *checkedConn) ResetSession(ctx context.Context) error {
	if resetter, able := c.driverConn.(sqldriver.SessionResetter); able {
		if err := resetter.ResetSession(ctx); err != nil {
			return err
		}
	}
	now := time.Now()
	idle := now.Sub(c.used)
	if c.used = now; idle <= sqlkit.Idle {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sqlkit.CheckTime(ctx))
	defer cancel()
	if _, err := c.ExecContext(ctx, "DO 1", nil); err != nil {
		return sqldriver.ErrBadConn
	}
	return nil
}

// IsValid implements sqldriver.Validator.
func (c *checkedConn) IsValid() bool {
	validator, able := c.driverConn.(sqldriver.Validator)
	return !able || validator.IsValid()
}

// CheckNamedValue implements sqldriver.NamedValueChecker.
func (c *checkedConn) CheckNamedValue(value *sqldriver.NamedValue) error {
	if checker, able := c.driverConn.(sqldriver.NamedValueChecker); able {
		return checker.CheckNamedValue(value)
	}
	return sqldriver.ErrSkip
}

// charsetQuery queries how the session reads quoted texts. safeCharset is the only result that
// agrees with the way the client library quotes texts.
const (
	charsetQuery = "SELECT CONCAT_WS(' ', @@character_set_client, @@character_set_connection, @@sql_mode LIKE '%NO_BACKSLASH_ESCAPES%')"
	safeCharset  = "utf8mb4 utf8mb4 0"
)

// quotesSafely refuses a session that does not read texts as the client library writes them: a proxy may not forward settings.
func quotesSafely(ctx context.Context, conn sqldriver.QueryerContext) error {
	rows, err := conn.QueryContext(ctx, charsetQuery, nil)
	if err != nil {
		return err
	}
	found := make([]sqldriver.Value, 1)
	err = errors.Join(rows.Next(found), rows.Close())
	if text := fmt.Sprintf("%s", found[0]); err == nil && text != safeCharset {
		err = fmt.Errorf("%w: the session reads texts as %q, although %q was set: a proxy may be in between", abstractions.ErrNotSetUp, text, safeCharset)
	}
	return err
}

// signIn connects. The Connector may call a function of the application to get the password. An error from that function
// says nothing about the server; the server's own errors have numbers.
func (c sessions) signIn(ctx context.Context) (conn sqldriver.Conn, err error) {
	var answer error // the error from the server or the network
	err = providerkit.GuardCredentials(nil, func() (err error) {
		if conn, err = c.Connector.Connect(ctx); err != nil && (errorNumber(err) != 0 || ctx.Err() != nil || isConnectionError(err)) {
			answer, err = err, nil
		}
		return err
	})
	return conn, cmp.Or(err, answer)
}

// isConnectionError reports whether an error concerns the connection itself.
func isConnectionError(err error) bool {
	var network net.Error
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	return errors.Is(err, sqldriver.ErrBadConn) || errors.As(err, &network) || errors.As(err, &untrusted) || errors.As(err, &plain)
}

// isDeadlock reports whether the server has rolled a transaction back in favor of another transaction. The request may be repeated at once.
func isDeadlock(number int) bool { return number == sqlkit.MySQLDeadlock }
