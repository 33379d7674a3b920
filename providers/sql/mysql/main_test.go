package mysqllease

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/dialect/dialecttest"
	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { dialecttest.Main(m, shared, nil) }

// shared has a database for each of the tests that all dialects share.
var shared = dialecttest.Database{
	URL: func(t testing.TB) string { return newBed(t, mariadbURL(t)).url }, Open: OpenURL,
	Except: map[string]string{
		"TheDeadAreNotListed": "all waiters poll, and so a process that has died is not seen",
	},
}

func TestDialect_mariadb(t *testing.T) {
	mariadbURL(t) // fails here rather than in each test
	dialecttest.Run(t, shared)
}

// Execute implements dialecttest.Executor.
func (m *backend) Execute(ctx context.Context, statement string, args ...any) error {
	return dialect.Run(ctx, m.db, statement, args...)
}

// mariadbURL returns the URL of a user who may create databases.
func mariadbURL(t testing.TB) string {
	t.Helper()
	return servertest.Require(t, "LEASING_TEST_MARIADB")
}

// bed is a test's own database.
type bed struct {
	url, name string
	config    *mysql.Config // for sessions with the server's defaults
}

func newBed(t testing.TB, server string) *bed {
	b := rootOf(t, server)
	u, err := url.Parse(server)
	require.NoError(t, err)
	b.name = "leasing_" + strings.ToLower(rand.Text()[:12])
	b.url = server[:strings.LastIndex(server, u.Path)] + "/" + b.name
	b.exec(t, "CREATE DATABASE "+b.name)
	b.config.DBName = b.name
	t.Cleanup(func() {
		db := b.connect(t)
		defer db.Close()
		_, _ = db.ExecContext(context.Background(), "DROP DATABASE "+b.name) // the test may have stopped its server
	})
	return b
}

// rootOf returns a bed for a server, without a database of its own.
func rootOf(t testing.TB, server string) *bed {
	u, err := url.Parse(server)
	require.NoError(t, err)
	b := &bed{config: mysql.NewConfig()}
	b.config.User, b.config.Net, b.config.Addr, b.config.InterpolateParams = u.User.Username(), "tcp", u.Host, true
	b.config.Passwd, _ = u.User.Password()
	return b
}

// connect opens a separate pool for the test.
func (b *bed) connect(t testing.TB) *sql.DB {
	t.Helper()
	connector, err := mysql.NewConnector(b.config)
	require.NoError(t, err)
	return sql.OpenDB(connector)
}

func (b *bed) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	db := b.connect(t)
	defer db.Close()
	_, err := db.ExecContext(bounded(t), statement, args...)
	require.NoError(t, err, statement)
}

func (b *bed) open(t testing.TB, parameters ...string) *Provider {
	t.Helper()
	p, err := OpenURL(bounded(t), b.url+"?"+strings.Join(append([]string{"create=true"}, parameters...), "&"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// silentProvider returns a provider whose server accepts connections and never answers.
func silentProvider(t testing.TB) abstractions.Provider {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	p, err := OpenURL(t.Context(), "mysql://somebody:secret@"+listener.Addr().String()+"/leases")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func claimOf(name string, ttl time.Duration) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: abstractions.NewID(), Owner: "tester", TTL: ttl}
}

func renewalOf(g abstractions.Grant) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: g.TTL}
}

func releaseOf(g abstractions.Grant) abstractions.ReleaseRequest {
	return abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, Token: g.Token}
}
