package sqlitelease

import (
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"
)

func TestConformance(t *testing.T) {
	providertest.Run(t, database.Harness(lockedSqlite, "history", "true", "history_renewals", "true"))
}

// lockedSqlite opens a file that another connection has locked, even for readers.
func lockedSqlite(t testing.TB) abstractions.Provider {
	open := database.New(t)
	p := open()
	path := pathOf(t, p)
	require.NoError(t, p.Close())
	conn, err := sqlite3.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.Exec("PRAGMA locking_mode = exclusive; CREATE TABLE mine (n)"))
	return open("create", "false")
}
