package mysqllease

import (
	"context"
	"database/sql/driver"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// ends are characters whose last bytes begin a character in one of the character sets of the test. In that set a backslash after
// them is the second byte of a character, and escapes nothing.
var ends = []string{"日", "い", "é", "xé", "😀", "ァ"}

// T126: the server sets the character set of sessions, but texts are quoted for UTF-8. A name, an owner or metadata that ends its
// quotes early would run as a statement.
func TestTrap_T126_TheServersCharacterSet_mariadb(t *testing.T) {
	server := servertest.NewMariaDB(t, "--skip-character-set-client-handshake", "--character-set-server=gbk")
	b := newBed(t, "mysql://root@"+server.Addr()+"/mysql")
	b.exec(t, "CREATE USER app@'%' IDENTIFIED BY ''")
	b.exec(t, "GRANT ALL ON "+b.name+".* TO app@'%'") // init_connect is for users without SUPER
	b.url = strings.Replace(b.url, "root@", "app@", 1)
	for _, set := range []string{"", "NAMES gbk", "NAMES big5", "NAMES sjis", "NAMES cp932", "NAMES euckr", "NAMES latin1", "sql_mode = 'NO_BACKSLASH_ESCAPES'", "sql_mode = 'ANSI'"} {
		t.Run("init_connect "+set, func(t *testing.T) {
			if set != "" {
				b.exec(t, "SET GLOBAL init_connect = \"SET "+set+"\"")
			}
			b.exec(t, "DROP TABLE IF EXISTS lease, lease_history, lease_version")
			p := b.open(t, "history=true")
			held, err := p.Acquire(bounded(t), claimOf("x", time.Minute))
			require.NoError(t, err)
			for _, end := range ends {
				hostile := end + "'; UPDATE lease SET expires_us = 1; DROP TABLE lease_history; -- "
				req := claimOf(hostile, time.Minute)
				req.Owner, req.Metadata = hostile, map[string]string{"k": hostile}
				grant, err := p.Acquire(bounded(t), req)
				require.NoError(t, err)
				record, err := p.Inspect(bounded(t), abstractions.InspectRequest{Name: hostile})
				require.NoError(t, err)
				require.Equal(t, []any{grant.Token, hostile, hostile}, []any{record.Token, record.Owner, record.Metadata["k"]})
				_, err = p.Break(bounded(t), abstractions.BreakRequest{Name: hostile, Actor: hostile, Reason: hostile, Immediate: true})
				require.NoError(t, err)
			}
			_, err = p.Acquire(bounded(t), claimOf("x", time.Minute))
			require.ErrorIs(t, err, abstractions.ErrHeld)
			_, err = p.Renew(bounded(t), renewalOf(held))
			require.NoError(t, err)
		})
	}
}

// T126: a proxy in front of the server does not forward the session's settings. The provider then sends no
// statement with parameters.
func TestTrap_T126_ASessionThatReadsTextsOtherwiseIsRefused_mariadb(t *testing.T) {
	b := newBed(t, mariadbURL(t))
	b.open(t)
	for _, set := range []string{"SET NAMES gbk", "SET NAMES latin1", "SET character_set_connection = big5", "SET sql_mode = 'NO_BACKSLASH_ESCAPES'"} {
		config := b.config.Clone()
		config.MultiStatements = true
		connector, err := mysql.NewConnector(config)
		require.NoError(t, err)
		p, err := Open(bounded(t), Options{Connector: overridingConnector{connector, set}, MaxConns: 2})
		require.NoError(t, err)
		_, err = p.Acquire(bounded(t), claimOf("n", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrNotSetUp, set)
		require.ErrorContains(t, err, "utf8mb4 utf8mb4 0")
		require.NoError(t, p.Close())
	}
}

// overridingConnector is a connector whose sessions run another statement after each statement without
// parameters.
type overridingConnector struct {
	driver.Connector
	statement string
}

func (o overridingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := o.Connector.Connect(ctx)
	return overridingConn{conn, o.statement}, err
}

type overridingConn struct {
	driver.Conn
	statement string
}

func (o overridingConn) ExecContext(ctx context.Context, statement string, args []driver.NamedValue) (driver.Result, error) {
	return o.Conn.(driver.ExecerContext).ExecContext(ctx, statement+"; "+o.statement, args)
}

func (o overridingConn) QueryContext(ctx context.Context, statement string, args []driver.NamedValue) (driver.Rows, error) {
	return o.Conn.(driver.QueryerContext).QueryContext(ctx, statement, args)
}
