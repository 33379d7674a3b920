package pgkit

import (
	"errors"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Verdict judges an error from a PostgreSQL driver: pgx, lib/pq, or another driver whose errors
// have a method SQLState.
func Verdict(err error) (v sqlkit.Verdict) {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		v = sqlkit.PostgreSQL(coded.SQLState())
	}
	// COMMIT of a failed transaction rolls it back, and the server reports no error.
	v.RolledBack = v.RolledBack || errors.Is(err, pgx.ErrTxCommitRollback)
	// Neither pgx nor database/sql repeats a statement that may have been sent.
	if unconnected := (*pgconn.ConnectError)(nil); v.Class == providerkit.Unknown && (errors.As(err, &unconnected) || coded == nil && providerkit.NotSent(err)) {
		v.Class = providerkit.Unsent
	}
	return v
}

// IsDuplicate reports whether PostgreSQL has refused a row because its key already exists.
func IsDuplicate(err error) bool {
	var coded interface{ SQLState() string }
	return errors.As(err, &coded) && coded.SQLState() == sqlkit.UniqueViolation
}
