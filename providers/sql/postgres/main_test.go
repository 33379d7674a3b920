package postgreslease

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/dialect/dialecttest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { dialecttest.Main(m, database, nil) }

// database has a schema for each test.
var database = dialecttest.Database{
	URL:  func(t testing.TB) string { return withParameters(postgresURL(t), "schema", newSchema(t)) },
	Open: OpenURL,
}

func TestDialect(t *testing.T) {
	postgresURL(t) // one failure rather than one for each test
	dialecttest.Run(t, database)
}

// The helpers that all dialects share.
var (
	withParameters = dialecttest.WithParameters
	bounded        = dialecttest.Bounded
	claimOf        = dialecttest.ClaimOf
	renewalOf      = dialecttest.RenewalOf
	releaseOf      = dialecttest.ReleaseOf
	lostBecause    = dialecttest.LostBecause
	execute        = dialecttest.Execute
	inTables       = dialecttest.InTables
	countRows      = dialecttest.CountRows
	idle           = dialecttest.Idle
	setBack        = dialecttest.SetBack
	exactly        = dialecttest.Exactly
	serverTime     = dialecttest.ServerTime
	expiry         = dialecttest.Expiry
	take           = dialecttest.Take
	join           = dialecttest.Join
	refused        = dialecttest.Refused
	awaitWakeup    = dialecttest.Hinted
	listed         = dialecttest.Listed
	fingerprints   = dialecttest.Fingerprints
	openTest       = database.OpenTest
)

// backendOf returns the backend of a provider.
func backendOf(p *Provider) *postgres { return dialecttest.BackendOf(p).(*postgres) }

// Execute implements dialecttest.Executor.
func (p *postgres) Execute(ctx context.Context, statement string, args ...any) error {
	return dialect.Run(ctx, p.db, statement, args...)
}

const postgresVariable = "LEASING_TEST_POSTGRES"

// postgresURL returns the URL of a role that may create schemas and roles.
func postgresURL(t testing.TB) string {
	t.Helper()
	return servertest.Require(t, postgresVariable)
}

var schemas atomic.Int64

// newSchema returns the name of a schema for the test, and drops the schema after the test.
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

// stdlibDB returns an application's own *sql.DB through pgx.
func stdlibDB(t testing.TB, config *pgx.ConnConfig) *sql.DB {
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}
