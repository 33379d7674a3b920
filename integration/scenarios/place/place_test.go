package place_test

import (
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/integration/scenarios/place"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTemporaryFileOnSQLiteIsRemoved(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "with a % space"))
	require.NoError(t, os.Mkdir(os.Getenv("TMPDIR"), 0o700))
	p, clear, err := place.SetUp(t.Context(), "test", "")
	require.NoError(t, err)
	use(t, p)
	require.NoError(t, clear())
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestClearOnSQLiteLeavesTheFileAlone(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "with a % space")
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "mine.db"), []byte("mine"), 0o600))
	file := url.URL{Path: filepath.ToSlash(filepath.Join(folder, "mine.db"))}
	for _, query := range []string{"", "?create=true"} {
		p, clear, err := place.SetUp(t.Context(), "test", "sqlite://"+file.EscapedPath()+query)
		require.NoError(t, err)
		use(t, p)
		require.NoError(t, clear())
		left, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Len(t, left, 1)
		text, err := os.ReadFile(filepath.Join(folder, "mine.db"))
		require.NoError(t, err)
		require.Equal(t, "mine", string(text))
	}
}

func TestClearOnPostgres(t *testing.T) {
	p, clear, err := place.SetUp(t.Context(), "test", server(t, "LEASING_TEST_POSTGRES"))
	require.NoError(t, err)
	use(t, p)
	db, err := sql.Open(p.Driver, p.Data)
	require.NoError(t, err)
	defer db.Close()
	schemas := func() (count int) {
		query := "SELECT COUNT(*) FROM pg_namespace WHERE nspname = $1"
		require.NoError(t, db.QueryRowContext(t.Context(), query, p.Scope).Scan(&count))
		return count
	}
	require.Equal(t, 1, schemas())
	require.NoError(t, clear())
	require.Zero(t, schemas())
}

// use acquires and releases a lease.
func use(t *testing.T, p place.Place) {
	t.Helper()
	manager, _, closeAll, err := p.Connect(t.Context(), leasing.Options{})
	require.NoError(t, err)
	lease, err := manager.Acquire(t.Context(), "test/lease")
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, closeAll())
}

func server(t *testing.T, variable string) string {
	t.Helper()
	return servertest.Require(t, variable)
}

func TestWhatIsNoPlaceLeavesNoFile(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Chdir(os.Getenv("TMPDIR"))
	for _, url := range []string{"geheim", "oracle://me:geheim@host/db", "memory://", "redis://host:port", "postgres://me:geheim@host:port/"} {
		_, _, err := place.SetUp(t.Context(), "test", url)
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "geheim")
	}
	left, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Empty(t, left)
}
