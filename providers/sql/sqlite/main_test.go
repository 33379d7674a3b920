package sqlitelease

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/dialect/dialecttest"
	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	dialecttest.Main(m, database, map[string]func(args []string) error{
		"open": func(args []string) error { return printOpenError(args[0], args[1]) },
		"loop": func(args []string) error { return loop(args[0]) },
	})
}

// database has a file for each test.
var database = dialecttest.Database{
	URL: func(t testing.TB) string {
		return "sqlite://" + strings.NewReplacer("#", "%23", "?", "%3F").Replace(filepath.Join(t.TempDir(), "leases #1?.db"))
	},
	Open: OpenURL,
}

func TestDialect(t *testing.T) { dialecttest.Run(t, database) }

// The helpers that all dialects share.
var (
	bounded     = dialecttest.Bounded
	claimOf     = dialecttest.ClaimOf
	renewalOf   = dialecttest.RenewalOf
	releaseOf   = dialecttest.ReleaseOf
	lostBecause = dialecttest.LostBecause
	awaitWakeup = dialecttest.Hinted
	openTest    = database.OpenTest
)

// backendOf returns the backend of a provider.
func backendOf(p *Provider) *sqlite { return dialecttest.BackendOf(p).(*sqlite) }

// Execute implements dialecttest.Executor.
func (s *sqlite) Execute(ctx context.Context, statement string, args ...any) error {
	return s.db.write(ctx, func(on dialect.Statements) error { return dialect.Run(ctx, on, statement, args...) })
}

// rawSqlite opens the test's own connection to p's file, and runs statements. It does not wait for
// locks.
func rawSqlite(t testing.TB, p *Provider, statements string) *sqlite3.Conn {
	t.Helper()
	conn, err := sqlite3.Open(pathOf(t, p))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.Exec(statements))
	return conn
}

// pathOf returns the path of p's file.
func pathOf(t testing.TB, p *Provider) (path string) {
	t.Helper()
	err := backendOf(p).db.QueryRow("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path)
	require.NoError(t, err)
	return path
}
