package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
)

func TestLedgerRefusesAFormerHolderOnSQLite(t *testing.T) {
	book, err := openLedger(t.Context(), filepath.Join(t.TempDir(), "a ledger.db"))
	require.NoError(t, err)
	defer book.close()
	write := func(name string, token int64, worker string) (int64, error) {
		return book.write(t.Context(), name, token, worker)
	}
	number, err := write("a", 5, "w1")
	require.NoError(t, err)
	require.Equal(t, int64(1), number)
	number, err = write("a", 6, "w2")
	require.NoError(t, err)
	require.Equal(t, int64(2), number)
	_, err = write("a", 5, "w1")
	require.ErrorIs(t, err, leasing.ErrStale)
	number, err = write("b", 5, "w1")
	require.NoError(t, err)
	require.Equal(t, int64(1), number, "another name has a fence of its own")
	rows, err := book.rows(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, []row{{1, 5, "w1"}, {2, 6, "w2"}}, rows)
}

func TestNoLedger(t *testing.T) {
	book, err := openLedger(t.Context(), "")
	require.NoError(t, err)
	defer book.close()
	number, err := book.write(t.Context(), "a", 5, "w1")
	require.NoError(t, err)
	require.Zero(t, number)
}
