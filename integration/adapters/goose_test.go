package adapters_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock/locktesting"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	gooselease "github.com/distributedleasing/leasing/adapters/goose"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// As in goose's own test of a locker, exactly one of several providers that migrate at the same
// time runs the migrations.
func TestGooseOwnSuite_Memory(t *testing.T) {
	t.Parallel()
	leases := memlease.New(memlease.Options{})
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "app.db")+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	files := fstest.MapFS{
		"1_one.sql": {Data: []byte("-- +goose Up\nCREATE TABLE one (id INTEGER);\n")},
		"2_two.sql": {Data: []byte("-- +goose Up\nCREATE TABLE two (id INTEGER);\n")},
	}
	locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
		m, err := leasing.NewManager(leases, leasing.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close(context.Background())) })
		p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithLocker(gooselease.New(m, "app/migrate")))
		require.NoError(t, err)
		return p
	})
}
