package sqlkit

import (
	"slices"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// SQLServerDeadlock is the error of a transaction that the server has rolled back in favor of another transaction.
const SQLServerDeadlock = 1205

// sqlServerDuplicates are the errors of an insert whose key already exists, in a primary key or in a unique index.
var sqlServerDuplicates = []int32{2627, 2601}

// sqlServerNumbers are the errors of SQL Server and Azure SQL Database, by their verdicts. Each batch that writes is one transaction under
// XACT_ABORT and ends with its COMMIT, so an error that is listed as refused has changed nothing. An error that is not listed leaves the
// outcome unknown. See https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors and
// https://learn.microsoft.com/azure/azure-sql/database/troubleshoot-common-errors-issues.
var sqlServerNumbers = byNumber(map[Verdict][]int32{
	// A deadlock, a timeout in a wait for a lock, no locks left; a key that already exists; no memory; a full file, disk or log;
	// too many connections; a server that only lets administrators in.
	Is(providerkit.Refused): {SQLServerDeadlock, 1222, 1204, 2627, 2601, 701, 802, 8645, 8651, 1101, 1105, 9002, 17809, 18401, 18461},
	// Azure SQL Database: the limits of a database, a pool and a subscription, a service that is busy, a database that has reached its size.
	{Meaning: providerkit.Meaning{Class: providerkit.Refused, Advice: "the service throttles"}}: {10928, 10929, 10936, 40501, 40544, 49918, 49919, 49920},
	// A read-only database or replica; a database that recovers, is restored, is offline, is in single-user mode, or is not
	// available; a server that is paused or starting.
	Closing(providerkit.Refused, "the server is read-only, or is not ready"): {
		3906, 3908, 976, 978, 979, 982, 983, 921, 922, 924, 927, 929, 942, 945, 952, 954, 955, 40613, 17142, 17187,
	},
	// A session that was killed; a server that shuts down; a service that fails over, or has ended a session.
	Closing(providerkit.Unknown, ""): {596, 6005, 40197, 40143, 40166, 40540, 40549, 40550, 40551, 40552, 40553},
	// A log-in that fails: no user, a wrong or expired password, an account that is locked or disabled; an address that the
	// firewall refuses. A missing permission on an object, a column, a statement or the database.
	Is(providerkit.Denied): {
		18456, 18451, 18452, 18470, 18486, 18487, 18488, 40532, 40615, 40914, 47073, 229, 230, 262, 297, 300, 916, 15247,
	},
	// No such database, schema, table or column; another application's table: other columns, types, keys and lengths, a view, triggers.
	Is(providerkit.NotSetUp): {
		4060, 4063, 4064, 911, 2759, 2760, 208, 207, 213, 1088, 2714, 1750, 206, 220, 245, 257, 271, 334, 515, 544, 547, 1934, 2628, 4405, 4406, 4413, 8114, 8115, 8152,
	},
})

// SQLServer returns the verdict on an error from SQL Server, given its number, and whether the number is
// listed.
func SQLServer(number int32) (v Verdict, listed bool) {
	v, listed = sqlServerNumbers[number]
	return v, listed
}

// SQLServerDuplicate reports whether an error from SQL Server means that the key of an insert already
// exists.
func SQLServerDuplicate(number int32) bool { return slices.Contains(sqlServerDuplicates, number) }
