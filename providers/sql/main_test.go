package sqllease

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const postgresVariable = "LEASING_TEST_POSTGRES"

func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		os.Exit(child(role))
	}
	goleak.VerifyTestMain(m)
}

// postgresURL is the URL of a role that may create schemas and roles. The tests
// of a backend that is missing fail: they are never skipped.
func postgresURL(t testing.TB) string {
	t.Helper()
	raw := os.Getenv(postgresVariable)
	if raw == "" {
		t.Fatalf("these tests need a PostgreSQL server: run `make test`, which starts one, or set %s to the URL of a superuser", postgresVariable)
	}
	return raw
}

var schemas atomic.Int64

// newSchema names a schema of the test's own, and drops it in the end.
func newSchema(t testing.TB) string {
	schema := fmt.Sprintf("test_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), schemas.Add(1))
	t.Cleanup(func() { execPostgres(t, "DROP SCHEMA IF EXISTS "+schema+" CASCADE") })
	return schema
}

// execPostgres runs statements as the superuser.
func execPostgres(t testing.TB, statements ...string) {
	t.Helper()
	conn := connectPostgres(t)
	defer conn.Close(context.Background())
	for _, statement := range statements {
		_, err := conn.Exec(context.Background(), statement)
		require.NoError(t, err, statement)
	}
}

func connectPostgres(t testing.TB) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, postgresURL(t))
	require.NoError(t, err)
	return conn
}

// withParameters adds query parameters to a URL.
func withParameters(rawURL string, parameters ...string) string {
	values := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		values.Set(parameters[i], parameters[i+1])
	}
	if strings.Contains(rawURL, "?") {
		return rawURL + "&" + values.Encode()
	}
	return rawURL + "?" + values.Encode()
}

// databases makes the tests below run on each dialect. open opens a provider
// on tables of the test's own; opening again shares them.
var databases = map[string]func(t testing.TB) (open func(parameters ...string) *Provider){
	"postgres": func(t testing.TB) func(...string) *Provider {
		base := withParameters(postgresURL(t), "schema", newSchema(t))
		return func(parameters ...string) *Provider { return openTest(t, base, parameters) }
	},
	"sqlite": func(t testing.TB) func(...string) *Provider {
		base := "sqlite://" + filepath.Join(t.TempDir(), "leases #1?.db")
		base = strings.NewReplacer("#", "%23", "?", "%3F").Replace(base)
		return func(parameters ...string) *Provider { return openTest(t, base, parameters) }
	},
}

func openTest(t testing.TB, base string, parameters []string) *Provider {
	t.Helper()
	if !slices.Contains(parameters, "create") {
		parameters = append(parameters, "create", "true")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	p, err := OpenURL(ctx, withParameters(base, parameters...))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// onEach runs a test on each dialect.
func onEach(t *testing.T, test func(t *testing.T, open func(parameters ...string) *Provider)) {
	for dialect, database := range databases {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			test(t, database(t))
		})
	}
}

// bounded is a context that a test that hangs runs into.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// claimOf is an acquire of a claim of its own.
func claimOf(name string, ttl time.Duration) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: abstractions.NewID(), Owner: "tester", TTL: ttl}
}

func renewalOf(claim abstractions.Grant) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: claim.Name, ID: claim.ID, Token: claim.Token, TTL: claim.TTL}
}

func releaseOf(claim abstractions.Grant) abstractions.ReleaseRequest {
	return abstractions.ReleaseRequest{Name: claim.Name, ID: claim.ID, Token: claim.Token}
}

func lostBecause(t testing.TB, err error, reason abstractions.LostReason) {
	t.Helper()
	var lost *abstractions.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, reason, lost.Reason)
}

// rawSqlite is a connection of the test's own to p's file, with these
// statements run. It has waited for nobody.
func rawSqlite(t testing.TB, p *Provider, statements string) *sqlite3.Conn {
	t.Helper()
	conn, err := sqlite3.Open(pathOf(t, p))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.Exec(statements))
	return conn
}

// pathOf is p's file.
func pathOf(t testing.TB, p *Provider) (path string) {
	t.Helper()
	err := p.driver.backend.(*sqlite).db.QueryRow("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path)
	require.NoError(t, err)
	return path
}

// execute runs a statement behind the provider's back, with the names of its
// tables for {lease}, {history}, {waiters} and {schema}.
func execute(ctx context.Context, t testing.TB, b backend, statement string, args ...any) {
	t.Helper()
	var err error
	switch b := b.(type) {
	case *postgres:
		err = run(ctx, b.db, inTables(b.tables.schema+"."+b.tables.table, statement), args...)
	case *sqlite:
		err = b.db.write(ctx, func(on statements) error { return run(ctx, on, inTables(b.tables.table, statement), args...) })
	}
	require.NoError(t, err, statement)
}

func inTables(lease, statement string) string {
	return strings.NewReplacer("{lease}", lease, "{history}", lease+historySuffix, "{schema}", lease+schemaSuffix, "{waiters}", lease+waitersSuffix).Replace(statement)
}

// stdlibDB is an application's own *sql.DB through pgx.
func stdlibDB(t testing.TB, config *pgx.ConnConfig) *sql.DB {
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}
