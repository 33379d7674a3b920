package sqlfence_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing/internal/fencingtest"
	"github.com/distributedleasing/leasing/fencing/sqlfence"
)

func TestGuardWritesBothStyles(t *testing.T) {
	guard, err := sqlfence.NewGuard(sqlfence.Dollar, "fencing_token", 3, 42)
	require.NoError(t, err)
	require.Equal(t, sqlfence.Guard{
		Set:   "fencing_token = $3",
		Where: "COALESCE(fencing_token, 0) <= $3",
		Token: 42,
	}, guard)

	guard, err = sqlfence.NewGuard(sqlfence.Question, "fencing_token", 0, 42)
	require.NoError(t, err)
	require.Equal(t, sqlfence.Guard{
		Set:   "fencing_token = ?",
		Where: "COALESCE(fencing_token, 0) <= ?",
		Token: 42,
	}, guard)
}

func TestGuardRefusesWhatCannotWork(t *testing.T) {
	for _, column := range hostileIdentifiers {
		_, err := sqlfence.NewGuard(sqlfence.Question, column, 1, 1)
		require.ErrorIs(t, err, leasing.ErrInvalid, "%q", column)
		require.ErrorContains(t, err, "column")
	}
	_, err := sqlfence.NewGuard(0, "token", 1, 1)
	require.ErrorContains(t, err, "style 0")
	_, err = sqlfence.NewGuard(sqlfence.Dollar, "token", 0, 1)
	require.ErrorContains(t, err, "position 0")
	for _, token := range fencingtest.BadTokens {
		_, err := sqlfence.NewGuard(sqlfence.Question, "token", 1, token)
		require.ErrorIs(t, err, leasing.ErrInvalid)
	}
}
