package sqllease

import (
	sqldriver "database/sql/driver"
	"errors"
	"slices"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// mysqlNumbers are the codes of MariaDB and MySQL by their class. What is not listed is unknown: a statement or connection that was killed
// (1317, 1927), a shutdown (1053) and a commit that failed (1180) may pass a commit by. See https://mariadb.com/kb/en/mariadb-error-codes/.
var mysqlNumbers = map[providerkit.Class][]int{
	// A lock that was waited for too long, also that of the history's numbers, a deadlock, a row that has changed; too many
	// connections, a host that is blocked; a full table; a server that is read-only.
	providerkit.Refused: {1205, 1467, 1213, 1020, 1040, 1203, 1226, 1129, 1114, 1290, 1792, 1836},
	// No access to the server, the database, a table or a column; a missing right.
	providerkit.Denied: {1044, 1045, 1130, 1142, 1143, 1227, 1698},
	// No such database or table; a table of somebody else: other columns, keys and lengths; a binary log of statements.
	providerkit.NotSetUp: {1046, 1049, 1050, 1054, 1062, 1136, 1146, 1364, 1406, 1665},
	providerkit.Invalid:  {1366}, // a text that the column does not take
}

func mysqlClass(err error, number int) providerkit.Class {
	if errors.Is(err, sqldriver.ErrBadConn) || number == 0 && providerkit.NotSent(err) { // nothing was sent
		return providerkit.Unsent
	}
	for class, numbers := range mysqlNumbers {
		if slices.Contains(numbers, number) {
			return class
		}
	}
	return providerkit.Unknown
}
