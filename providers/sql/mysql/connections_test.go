//go:build unix

package mysqllease

import (
	"context"
	"database/sql/driver"
	"errors"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// startServer starts a server for one test, with a database and a user who has permissions only on this database.
func startServer(t *testing.T, flags ...string) (root, app *bed) {
	server := servertest.NewMariaDB(t, flags...)
	root = newBed(t, "mysql://root@"+server.Addr()+"/mysql")
	root.exec(t, "CREATE USER app@'%' IDENTIFIED BY 'geheim'")
	root.exec(t, "GRANT ALL ON "+root.name+".* TO app@'%'")
	u := strings.Replace(root.url, "root@", "app:geheim@", 1)
	return root, &bed{url: u, name: root.name, config: root.config}
}

func (b *bed) openWithout(t *testing.T) *Provider {
	p, err := OpenURL(bounded(t), b.url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// T150: a read-only server refuses requests, and the error names the reason. Each attempt costs one connection, not
// hundreds.
func TestTrap_T150_AServerThatOnlyReads_mariadb(t *testing.T) {
	root, app := startServer(t)
	p := app.open(t)
	claim, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	count := func() (n int) {
		db := root.connect(t)
		defer db.Close()
		require.NoError(t, db.QueryRow("SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'CONNECTIONS'").Scan(&n))
		return n
	}
	root.exec(t, "SET GLOBAL read_only = 1")
	before := count()
	for range 5 {
		require.ErrorIs(t, p.Release(bounded(t), releaseOf(claim)), abstractions.ErrThrottled)
	}
	require.LessOrEqual(t, count()-before, 12)
	root.exec(t, "SET GLOBAL read_only = 0")
	require.NoError(t, p.Release(bounded(t), releaseOf(claim)))
}

// T157: one error number of the server (1290) stands for many options. A request that a permanent option prevents is not retried.
func TestTrap_T157_AnOptionPreventsTheStatement_mariadb(t *testing.T) {
	_, app := startServer(t, "--enforce-storage-engine=Aria")
	_, err := OpenURL(bounded(t), app.url+"?create=true")
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	require.NotErrorIs(t, err, abstractions.ErrThrottled)
	require.NotContains(t, err.Error(), "bad connection")
}

// T151: a gateway has dropped idle connections. A request gets a working connection within its timeout, even if many connections
// were dropped.
func TestTrap_T151_AConnectionThatWasIdleIsChecked_mariadb(t *testing.T) {
	u, err := url.Parse(mariadbURL(t))
	require.NoError(t, err)
	b := newBed(t, mariadbURL(t))
	gateway := servertest.NewGateway(t, u.Host)
	p := (&bed{url: strings.Replace(b.url, u.Host, gateway.Addr(), 1)}).open(t)
	claim, err := p.Acquire(bounded(t), claimOf("n", time.Hour))
	require.NoError(t, err)
	unlock := b.lock(t, "n")
	var all sync.WaitGroup
	for range 4 { // each renewal waits for the row on its own connection
		all.Go(func() { _, _ = p.Renew(bounded(t), renewalOf(claim)) })
	}
	db := b.connect(t)
	defer db.Close()
	require.Eventually(t, func() (blocked bool) {
		err := db.QueryRow("SELECT count(*) >= 4 FROM information_schema.processlist WHERE db = ? AND info LIKE 'UPDATE%'", b.name).Scan(&blocked)
		return err == nil && blocked
	}, time.Minute, time.Millisecond)
	unlock()
	all.Wait()
	<-time.After(1100 * time.Millisecond) // pools measure idle time by the real clock
	gateway.Forget()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	require.NoError(t, p.Release(ctx, releaseOf(claim)))
}

// T156: an account that may not log in is denied, and does not wait endlessly.
func TestTrap_T156_AccountsThatMayNotLogIn_mariadb(t *testing.T) {
	root, app := startServer(t)
	root.open(t)
	for _, change := range []string{"ACCOUNT LOCK", "ACCOUNT UNLOCK PASSWORD EXPIRE", "IDENTIFIED BY 'another'"} {
		root.exec(t, "ALTER USER app@'%' "+change)
		_, err := app.openWithout(t).Acquire(bounded(t), claimOf("n", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrDenied, change)
	}
	root.exec(t, "ALTER USER app@'%' IDENTIFIED BY 'geheim' REQUIRE SSL PASSWORD EXPIRE NEVER")
	_, err := app.openWithout(t).Acquire(bounded(t), claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrDenied, "TLS")
	for _, ended := range []error{mysql.ErrNoTLS, mysql.ErrUnknownPlugin, mysql.ErrCleartextPassword, mysql.ErrOldPassword, mysql.ErrNativePassword} {
		p, err := Open(bounded(t), Options{Connector: failingConnector{ended}, MaxConns: 2})
		require.NoError(t, err)
		_, err = p.Acquire(bounded(t), claimOf("n", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrDenied, ended)
		require.NoError(t, p.Close())
	}
}

// failingConnector is a connector whose Connect fails.
type failingConnector struct{ err error }

func (r failingConnector) Connect(context.Context) (driver.Conn, error) { return nil, r.err }
func (failingConnector) Driver() driver.Driver                          { return mysql.MySQLDriver{} }

// rewritingConn is a connection that changes statements, or answers without the server.
type rewritingConn struct {
	conn
	rewrite func(statement string) (string, error)
}

func (c rewritingConn) QueryContext(ctx context.Context, statement string, args []driver.NamedValue) (driver.Rows, error) {
	statement, err := c.rewrite(statement)
	if err != nil {
		return nil, err
	}
	return c.conn.QueryContext(ctx, statement, args)
}

type rewritingConnector struct {
	driver.Connector
	rewrite func(statement string) (string, error)
}

func (c rewritingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	made, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return rewritingConn{made.(conn), c.rewrite}, nil
}

func (b *bed) openRewriting(t *testing.T, rewrite func(statement string) (string, error)) *Provider {
	config := b.config.Clone()
	config.MultiStatements = true
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
	p, err := Open(bounded(t), Options{MaxConns: 4, Connector: rewritingConnector{connector, rewrite}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// T158: MySQL 8 refuses innodb_lock_wait_timeout = 0 (1231), as MariaDB refuses a wait_timeout of 0. A batch of renewals works on both.
func TestTrap_T158_MySQLHasALeastWaitForLocks_mariadb(t *testing.T) {
	b, _ := startServer(t, "--version=8.0.36")
	b.open(t)
	p := b.openRewriting(t, func(statement string) (string, error) {
		return strings.ReplaceAll(statement, "innodb_lock_wait_timeout", "wait_timeout"), nil
	})
	var batch []abstractions.RenewRequest
	for _, name := range []string{"a", "b", "c"} {
		claim, err := p.Acquire(bounded(t), claimOf(name, time.Minute))
		require.NoError(t, err)
		batch = append(batch, renewalOf(claim))
	}
	results, err := p.RenewBatch(bounded(t), batch)
	require.NoError(t, err)
	for _, result := range results {
		require.NoError(t, result.Err)
	}
}

// T159: a server with safe updates refuses updates without a key, but accepts all batches of the provider.
func TestTrap_T159_SafeUpdates_mariadb(t *testing.T) {
	root, app := startServer(t)
	root.exec(t, "SET GLOBAL sql_safe_updates = 1")
	p := app.open(t)
	var statements atomic.Int64
	counting := root.openRewriting(t, func(statement string) (string, error) { statements.Add(1); return statement, nil })
	var batch []abstractions.RenewRequest
	for _, name := range []string{"a", "b", "c", "d"} {
		claim, err := p.Acquire(bounded(t), claimOf(name, time.Minute))
		require.NoError(t, err)
		batch = append(batch, renewalOf(claim))
	}
	require.NoError(t, counting.Ping(bounded(t)))
	statements.Store(0)
	results, err := counting.RenewBatch(bounded(t), batch)
	require.NoError(t, err)
	for _, result := range results {
		require.NoError(t, result.Err)
	}
	require.EqualValues(t, 2, statements.Load(), "no claim is renewed alone")
	require.NoError(t, p.Release(bounded(t), abstractions.ReleaseRequest{Name: batch[0].Name, ID: batch[0].ID, Token: batch[0].Token}))
	_, err = p.Sweep(bounded(t))
	require.NoError(t, err)
}

// T160: the server rolls back one of two transactions that wait for each other. That transaction is repeated, so sweeps and
// requests succeed.
func TestTrap_T160_ADeadlockIsNoAnswer_mariadb(t *testing.T) {
	b := newBed(t, mariadbURL(t))
	b.open(t)
	var dead atomic.Int64
	p := b.openRewriting(t, func(statement string) (string, error) {
		if strings.Contains(statement, "DELETE") || strings.Contains(statement, "INSERT") || strings.Contains(statement, "UPDATE") {
			if dead.Add(1)%3 != 0 {
				return "", &mysql.MySQLError{Number: 1213, Message: "Deadlock found when trying to get lock; try restarting transaction"}
			}
		}
		return statement, nil
	})
	claim, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	require.NoError(t, p.Release(bounded(t), releaseOf(claim)))
	b.exec(t, "UPDATE lease SET version = version - 7200000000")
	swept, err := p.Sweep(bounded(t))
	require.NoError(t, err)
	require.Equal(t, 1, swept)

	always := b.openRewriting(t, func(string) (string, error) { return "", &mysql.MySQLError{Number: 1213} })
	_, err = always.Acquire(bounded(t), claimOf("m", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrThrottled, "it does not go on for ever")
}

// T161: a row made by hand, with a version of 0, is treated like any other row.
func TestTrap_T161_ARowOfVersionZero_mariadb(t *testing.T) {
	b := newBed(t, mariadbURL(t))
	b.open(t)
	b.exec(t, "INSERT INTO lease (name, version, token, id, owner, metadata, expires_us, breaking, broken_by, break_reason, ended, waiters) "+
		"VALUES ('n', 0, 7, '', '', '{}', 0, 0, '', '', '', '')")
	var statements atomic.Int64
	p := b.openRewriting(t, func(statement string) (string, error) {
		if statements.Add(1) > 20 {
			return "", errors.New("it asks without end")
		}
		return statement, nil
	})
	claim, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	require.Greater(t, claim.Token, int64(7))
	_, err = p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)
}
