package fencing_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/fencing/sqlfence"
)

// report updates the only row of table report under a guard and returns how many
// rows were affected.
func report(t *testing.T, b backend, on interface {
	Exec(query string, args ...any) (sql.Result, error)
}, body string, token int64,
) int64 {
	guard, err := sqlfence.NewGuard(b.style, "fencing_token", 2, token)
	if !assert.NoError(t, err) {
		return -1
	}
	args := []any{body, guard.Token, guard.Token}
	query := "UPDATE report SET body = ?, " + guard.Set + " WHERE " + guard.Where
	if b.style == sqlfence.Dollar {
		args = []any{body, guard.Token}
		query = "UPDATE report SET body = $1, " + guard.Set + " WHERE " + guard.Where
	}
	result, err := on.Exec(query, args...)
	if !assert.NoError(t, err) {
		return -1
	}
	affected, err := result.RowsAffected()
	assert.NoError(t, err)
	return affected
}

func TestGuardAdmitsEqualAndLargerTokensOnly(t *testing.T) {
	onEachBackend(t, func(t *testing.T, b backend) {
		b.exec(t, "CREATE TABLE report (body text, fencing_token bigint)")
		b.exec(t, "INSERT INTO report VALUES ('', NULL)")
		require.EqualValues(t, 1, report(t, b, b.db, "first", 7), "a row never fenced")
		require.EqualValues(t, 1, report(t, b, b.db, "again", 7))
		require.EqualValues(t, 1, report(t, b, b.db, "next", 8))
		require.EqualValues(t, 0, report(t, b, b.db, "late", 7))
		var body string
		require.NoError(t, b.db.QueryRowContext(t.Context(), "SELECT body FROM report").Scan(&body))
		require.Equal(t, "next", body)
	})
}

func TestGuardDecidesOnTheRowItHasLocked(t *testing.T) {
	onEachBackend(t, func(t *testing.T, b backend) {
		b.exec(t, "CREATE TABLE report (body text, fencing_token bigint)")
		b.exec(t, "INSERT INTO report VALUES ('', 7)")
		current := b.begin(t)
		require.EqualValues(t, 1, report(t, b, current, "current", 8))
		late := make(chan int64, 1)
		go func() { late <- report(t, b, b.db, "late", 7) }()
		b.waiting(t)
		require.NoError(t, current.Commit())
		require.EqualValues(t, 0, <-late)
	})
}
