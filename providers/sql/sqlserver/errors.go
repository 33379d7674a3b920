package sqlserverlease

import (
	sqldriver "database/sql/driver"
	"errors"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
	mssql "github.com/microsoft/go-mssqldb"
)

// fatalSeverity is the lowest severity of errors that end the connection.
const fatalSeverity = 20

// verdict classifies an error from go-mssqldb. The server may send several errors for a batch. The first error counts, but
// an error that is not listed makes the outcome unknown.
func verdict(err error) (v sqlkit.Verdict) {
	said := serverErrors(err)
	if len(said) == 0 {
		if errors.Is(err, sqldriver.ErrBadConn) || providerkit.NotSent(err) { // nothing was sent
			return sqlkit.Is(providerkit.Unsent)
		}
		return v
	}
	v, _ = sqlkit.SQLServer(said[0].Number)
	for _, e := range said {
		if _, listed := sqlkit.SQLServer(e.Number); !listed {
			v.Class = providerkit.Unknown
		}
		v.Close = v.Close || e.Class >= fatalSeverity
	}
	if ended := (mssql.ServerError{}); errors.As(err, &ended) {
		return sqlkit.Closing(providerkit.Unknown, "")
	}
	return v
}

// serverErrors returns the server's errors for a batch, from the first to the last.
func serverErrors(err error) []mssql.Error {
	var e mssql.Error
	switch {
	case !errors.As(err, &e):
		return nil
	case len(e.All) == 0:
		return []mssql.Error{e}
	}
	return e.All
}

// isDeadlock reports whether the server has rolled a transaction back in favor of another transaction. The request may be repeated at once.
func isDeadlock(err error) bool {
	said := serverErrors(err)
	return len(said) == 1 && said[0].Number == sqlkit.SQLServerDeadlock
}

// isDuplicate reports whether an insert failed because its key already exists. Such an insert has
// changed nothing.
func isDuplicate(err error) bool {
	said := serverErrors(err)
	return len(said) == 1 && sqlkit.SQLServerDuplicate(said[0].Number)
}
