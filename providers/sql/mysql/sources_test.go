package mysqllease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// withHook opens a provider over an application's connector. The connector calls a function, which may set the password, before
// each connection.
func (b *bed) withHook(t testing.TB, before func(context.Context, *mysql.Config) error) *Provider {
	t.Helper()
	config := b.config.Clone()
	config.MultiStatements, config.InterpolateParams, config.RejectReadOnly = true, true, true
	config.Logger = &mysql.NopLogger{}
	require.NoError(t, config.Apply(mysql.BeforeConnect(before)))
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
	p, err := Open(bounded(t), Options{Connector: connector, MaxConns: 4, Create: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// hangUp closes the connections to the bed's database.
func (b *bed) hangUp(t testing.TB) {
	db := b.connect(t)
	defer db.Close()
	require.NoError(t, kill(bounded(t), db, b.name))
}

func kill(ctx context.Context, db *sql.DB, name string) (err error) {
	rows, err := db.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE db = ? AND id <> CONNECTION_ID()", name)
	if err != nil {
		return err
	}
	var all []int64
	for rows.Next() {
		var id int64
		err = errors.Join(err, rows.Scan(&id))
		all = append(all, id)
	}
	err = errors.Join(err, rows.Err(), rows.Close())
	for _, id := range all {
		_, _ = db.ExecContext(ctx, fmt.Sprint("KILL ", id)) // the connection may already have ended
	}
	return err
}

// T119: an error from the application's password function says nothing about the server.
func TestTrap_T119_SourcesOfPasswordsFail_mariadb(t *testing.T) {
	b, source := newBed(t, mariadbURL(t)), &credentialtest.Source{}
	credentialtest.SourcesOfCredentials(t, credentialtest.SourceCheck{
		Source: source, TTL: time.Minute, Function: true, Unnamed: true, Expire: func() { b.hangUp(t) },
		Open: func(t testing.TB) abstractions.Provider {
			return b.withHook(t, func(ctx context.Context, _ *mysql.Config) error { return source.Err(ctx) })
		},
	})
}

// T118: a server that requires the plain password is refused, and no error shows the password.
func TestTrap_T118_ThePasswordIsNotSentAsItIs(t *testing.T) {
	var sent credentialtest.Recorder
	addr := sent.Listen(t, func(conn net.Conn) {
		const plugin = "mysql_clear_password"
		greeting := "\x0a8.0.0\x00\x01\x00\x00\x0012345678\x00\xff\xf7\x21\x02\x00\xff\xc1\x15" + string(make([]byte, 10)) + "123456789012\x00" + plugin + "\x00"
		_, _ = conn.Write(append([]byte{byte(len(greeting)), 0, 0, 0}, greeting...))
		_, _ = io.CopyN(io.Discard, conn, 64)
		ask := "\xfe" + plugin + "\x00"
		_, _ = conn.Write(append([]byte{byte(len(ask)), 0, 0, 2}, ask...))
	})
	p, err := OpenURL(t.Context(), "mysql://app:s3cret@"+addr+"/leases?timeout=2s")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	err = p.Ping(t.Context())
	require.Error(t, err)
	require.NotContains(t, err.Error(), "s3cret")
	require.Contains(t, sent.String(), "app\x00", "it has greeted")
	require.NotContains(t, sent.String(), "s3cret")
}
