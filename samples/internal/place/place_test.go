package place_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/samples/internal/place"
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

func TestClearOnSQLiteLeavesTheRestOfTheFile(t *testing.T) {
	url := "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "mine.db"))
	mine, err := place.Place{URL: url, Scope: "mine"}.SQL()
	require.NoError(t, err)
	defer mine.Close()
	_, err = mine.ExecContext(t.Context(), "CREATE TABLE sample_test (a)")
	require.NoError(t, err)
	p, clear, err := place.SetUp(t.Context(), "test", url)
	require.NoError(t, err)
	use(t, p)
	require.NoError(t, clear())
	var tables, name string
	require.NoError(t, mine.QueryRowContext(t.Context(), "SELECT COUNT(*), MIN(name) FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'").Scan(&tables, &name))
	require.Equal(t, "1 sample_test", tables+" "+name)
}

func TestClearOnPostgres(t *testing.T) {
	p, clear, err := place.SetUp(t.Context(), "test", server(t, "LEASING_TEST_POSTGRES"))
	require.NoError(t, err)
	use(t, p)
	db, err := p.SQL()
	require.NoError(t, err)
	defer db.Close()
	count := func() (n int) {
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM pg_namespace WHERE nspname = $1", p.Scope).Scan(&n))
		return n
	}
	require.Equal(t, 1, count())
	require.NoError(t, clear())
	require.Equal(t, 0, count())
}

func TestClearOnRedisLeavesOtherKeys(t *testing.T) {
	p, clear, err := place.SetUp(t.Context(), "test", server(t, "LEASING_TEST_REDIS"))
	require.NoError(t, err)
	use(t, p)
	client, err := p.Redis()
	require.NoError(t, err)
	defer client.Close()
	other := p.Scope + "_other"
	require.NoError(t, client.Set(t.Context(), other, "1", 0).Err())
	defer client.Del(context.Background(), other)
	require.NoError(t, client.Set(t.Context(), p.Key("data"), "1", 0).Err())
	require.NoError(t, clear())
	left, err := client.Keys(t.Context(), "*"+p.Scope+"*").Result()
	require.NoError(t, err)
	require.Equal(t, []string{other}, left)
}

// use takes a lease.
func use(t *testing.T, p place.Place) {
	t.Helper()
	manager, closeManager, err := p.Manager(t.Context(), leasing.Options{})
	require.NoError(t, err)
	lease, err := manager.Acquire(t.Context(), "test/lease", nil)
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, closeManager())
}

func server(t *testing.T, variable string) string {
	t.Helper()
	url := os.Getenv(variable)
	require.NotEmpty(t, url, "set %s to the URL of a server, or run the test in scripts/with-servers", variable)
	return url
}

func TestOtherSchemesAreRefusedWithoutTheirPassword(t *testing.T) {
	for _, url := range []string{"mysql://me:geheim@host/db", "geheim", "redis://me:geheim@host:port:port", "postgres://me:geheim@host:port/"} {
		_, _, err := place.SetUp(t.Context(), "test", url)
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "geheim", url)
	}
	for _, scheme := range []string{"mysql", "azblob", "cosmos"} { // those with leases and no place for data too
		_, _, err := place.SetUp(t.Context(), "test", scheme+"://host/a")
		require.ErrorContains(t, err, `"`+scheme+`"; there are redis://`)
	}
}

func TestSQLText(t *testing.T) {
	const text = "INSERT INTO @notes (a, b) SELECT ?, ? FROM @outbox"
	on := func(url string) string { return place.Place{URL: url, Scope: "s"}.SQLText(text, "notes", "outbox") }
	require.Equal(t, "INSERT INTO s_notes (a, b) SELECT ?, ? FROM s_outbox", on("sqlite:///f"))
	require.Equal(t, "INSERT INTO s.notes (a, b) SELECT $1, $2 FROM s.outbox", on("postgres://h/d"))
}

func TestWhatIsNoPlaceLeavesNoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, url := range []string{"geheim", "mysql://host/db", "redis://host:port"} {
		_, _, err := place.SetUp(t.Context(), "test", url)
		require.Error(t, err, url)
	}
	left, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Empty(t, left)
}
