package sqlserverlease

import (
	sqldriver "database/sql/driver"
	"errors"
	"slices"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
	mssql "github.com/microsoft/go-mssqldb"
)

// deadlock is the error of a transaction that the server has rolled back in favor of another transaction.
const deadlock = 1205

// duplicates are the errors of an insert whose key is in a table: of a primary key, and of a unique index.
var duplicates = []int32{2627, 2601}

// fatal is the least severity of errors that end the connection.
const fatal = 20

// verdicts are the errors of SQL Server and Azure SQL Database, by their verdicts. Each batch that writes is one transaction under
// XACT_ABORT and ends with its COMMIT, so an error that is listed as refused has changed nothing. An error that is not listed leaves the
// outcome unknown. See https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors and
// https://learn.microsoft.com/azure/azure-sql/database/troubleshoot-common-errors-issues.
var verdicts = byNumber(map[sqlkit.Verdict][]int32{
	// A deadlock, a wait for a lock that took too long, no locks left; a key that is there already; no memory; a full file, disk or log; too many
	// connections; a server that only lets administrators in.
	sqlkit.Is(providerkit.Refused): {deadlock, 1222, 1204, 2627, 2601, 701, 802, 8645, 8651, 1101, 1105, 9002, 17809, 18401, 18461},
	// Azure SQL Database: the limits of a database, a pool and a subscription, a service that is busy, a database that has reached its size.
	{Meaning: providerkit.Meaning{Class: providerkit.Refused, Advice: "the service throttles"}}: {10928, 10929, 10936, 40501, 40544, 49918, 49919, 49920},
	// A read-only database or replica; a database that recovers, is restored, is offline, has one user, or is not available; a server that is paused or starts.
	sqlkit.Closing(providerkit.Refused, "the server is read-only, or is not ready"): {
		3906, 3908, 976, 978, 979, 982, 983, 921, 922, 924, 927, 929, 942, 945, 952, 954, 955, 40613, 17142, 17187,
	},
	// A session that was killed; a server that shuts down; a service that fails over, or has ended a session.
	sqlkit.Closing(providerkit.Unknown, ""): {596, 6005, 40197, 40143, 40166, 40540, 40549, 40550, 40551, 40552, 40553},
	// A log-in that fails: no user, a wrong password, one that is locked, disabled or has expired; an address that the firewall refuses. A missing right
	// on an object, a column, a statement or the database.
	sqlkit.Is(providerkit.Denied): {
		18456, 18451, 18452, 18470, 18486, 18487, 18488, 40532, 40615, 40914, 47073, 229, 230, 262, 297, 300, 916, 15247,
	},
	// No such database, schema, table or column; another application's table: other columns, types, keys and lengths, a view, triggers.
	sqlkit.Is(providerkit.NotSetUp): {
		4060, 4063, 4064, 911, 2759, 2760, 208, 207, 213, 1088, 2714, 1750, 206, 220, 245, 257, 271, 334, 515, 544, 547, 1934, 2628, 4405, 4406, 4413, 8114, 8115, 8152,
	},
})

func byNumber(numbers map[sqlkit.Verdict][]int32) map[int32]sqlkit.Verdict {
	all := map[int32]sqlkit.Verdict{}
	for verdict, some := range numbers {
		for _, number := range some {
			all[number] = verdict
		}
	}
	return all
}

// verdict judges an error of go-mssqldb. The server may send several errors for a batch. The first one counts, but one that is not listed makes
// the outcome unknown.
func verdict(err error) (v sqlkit.Verdict) {
	said := serverErrors(err)
	if len(said) == 0 {
		if errors.Is(err, sqldriver.ErrBadConn) || providerkit.NotSent(err) { // nothing was sent
			return sqlkit.Is(providerkit.Unsent)
		}
		return v
	}
	v = verdicts[said[0].Number]
	for _, e := range said {
		if _, listed := verdicts[e.Number]; !listed {
			v.Class = providerkit.Unknown
		}
		v.Close = v.Close || e.Class >= fatal
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

// deadlocked reports whether the server has rolled a transaction back in favor of another transaction. The request may be repeated at once.
func deadlocked(err error) bool {
	said := serverErrors(err)
	return len(said) == 1 && said[0].Number == deadlock
}

// duplicate reports whether an insert has met a row with its key, and has changed nothing.
func duplicate(err error) bool {
	said := serverErrors(err)
	return len(said) == 1 && slices.Contains(duplicates, said[0].Number)
}
