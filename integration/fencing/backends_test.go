package fencing_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/fencing/sqlfence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// timeout bounds the waits of a test on a slow machine.
const timeout = 30 * time.Second

// backend is a database of the test's own.
type backend struct {
	style sqlfence.Placeholders
	db    *sql.DB
	// waiting waits until a statement waits for another statement's lock, if the database can show
	// waits.
	waiting func(t *testing.T)
}

// sql writes a statement's parameters, given as ?, in the backend's style.
func (b backend) sql(query string) string {
	if b.style == sqlfence.Question {
		return query
	}
	var text strings.Builder
	for i, part := range strings.Split(query, "?") {
		if i > 0 {
			fmt.Fprintf(&text, "$%d", i)
		}
		text.WriteString(part)
	}
	return text.String()
}

func (b backend) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	_, err := b.db.ExecContext(t.Context(), b.sql(query), args...)
	require.NoError(t, err)
}

func (b backend) table(t *testing.T) *sqlfence.Table {
	t.Helper()
	table, err := sqlfence.NewTable(b.style, "")
	require.NoError(t, err)
	b.exec(t, table.CreateSQL())
	b.exec(t, table.CreateSQL()) // creating the table again does no harm
	return table
}

func (b backend) begin(t *testing.T) *sql.Tx {
	t.Helper()
	tx, err := b.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func onEachBackend(t *testing.T, test func(t *testing.T, b backend)) {
	t.Run("sqlite", func(t *testing.T) { test(t, openSQLite(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, openPostgres(t)) })
}

func openSQLite(t *testing.T) backend {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fencing.db")
	db, err := sql.Open("sqlite3", "file:"+path+"?_pragma=busy_timeout(30000)&_pragma=journal_mode(wal)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return backend{style: sqlfence.Question, db: db, waiting: func(*testing.T) {}}
}

func openPostgres(t *testing.T) backend {
	t.Helper()
	config := postgresConfig(t)
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return backend{style: sqlfence.Dollar, db: db, waiting: func(t *testing.T) {
		t.Helper()
		require.Eventually(t, func() bool {
			var waiting bool
			err := db.QueryRowContext(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE application_name = $1 AND wait_event_type = 'Lock')`, t.Name()).Scan(&waiting)
			return err == nil && waiting
		}, timeout, 5*time.Millisecond)
	}}
}

// postgresConfig returns the configuration of a connection to a schema of
// the test's own.
func postgresConfig(t *testing.T) *pgx.ConnConfig {
	t.Helper()
	raw := servertest.Require(t, "LEASING_TEST_POSTGRES")
	_, err := url.Parse(raw)
	require.NoError(t, err)
	config, err := pgx.ParseConfig(raw)
	require.NoError(t, err)
	schema := "fencing_" + strings.ToLower(strings.Map(lettersOnly, t.Name()))
	schema = fmt.Sprintf("%.40s_%d", schema, os.Getpid())

	admin, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	_, err = admin.Exec(t.Context(), "CREATE SCHEMA "+schema)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		_, err := admin.Exec(ctx, "DROP SCHEMA "+schema+" CASCADE")
		require.NoError(t, err)
		require.NoError(t, admin.Close(ctx))
	})
	config = config.Copy()
	config.RuntimeParams["search_path"] = schema
	config.RuntimeParams["application_name"] = t.Name()
	return config
}

func lettersOnly(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return '_'
}
