package sqlkit

import (
	"strings"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// optionPrevents is ER_OPTION_PREVENTS_STATEMENT: an option of the server, which the text names, prevents the statement.
const optionPrevents = 1290

// MySQLDeadlock is ER_LOCK_DEADLOCK: the server has rolled the transaction back.
const MySQLDeadlock = 1213

// MySQLAuthError is CR_AUTH_PLUGIN_ERR of MySQL's own client: server and client have no common way to log in.
const MySQLAuthError = 2061

// mysqlNumbers are the codes of MariaDB and MySQL, by their verdicts. A code that is not listed leaves the outcome unknown: a failed
// commit (1180) and a cancelled statement (1317, 1969, 3024) may hide a commit.
// See https://mariadb.com/kb/en/mariadb-error-codes/ and https://dev.mysql.com/doc/mysql-errors/8.4/en/.
var mysqlNumbers = byNumber(map[Verdict][]int{
	// A timeout in a wait for a lock, including the history's auto-increment lock; a deadlock; a row that has
	// changed; too many connections, a blocked host; a full table.
	Is(providerkit.Refused): {1205, 1467, MySQLDeadlock, 1020, 1040, 1203, 1226, 1129, 1114},
	// A read-only server or transaction; a server that is offline, or whose cluster is not ready; a session that ended while
	// it was idle.
	Closing(providerkit.Refused, "the server is read-only, or is not ready"): {1792, 1836, 3032, 1047, 4031},
	// A server that shuts down, and a connection that was killed.
	Closing(providerkit.Unknown, ""): {1053, 1927},
	// No access to the server, the database, a table or a column; a missing permission; a locked account; a password that has
	// expired, or that the server requires in another form; no TLS where the server or the account demands TLS.
	Is(providerkit.Denied): {
		1044, 1045, 1130, 1142, 1143, 1227, 1698, 1370, 1820, 1862, 4151, 3118, 3955, 1251, 1275, 1524, 3159, MySQLAuthError,
	},
	// No such database or table; another application's table: other columns, keys and lengths, or a view; statement-based binary
	// logging.
	Is(providerkit.NotSetUp): {1046, 1049, 1050, 1054, 1062, 1136, 1146, 1176, 1286, 1288, 1364, 1406, 1471, 1665},
	Is(providerkit.Invalid):  {1366}, // a text that the column does not accept
})

// MySQL returns the verdict on an error from MariaDB or MySQL, given the error's number and text.
func MySQL(number int, text string) Verdict {
	switch {
	case number == optionPrevents && isReadOnlyOption(text):
		return Closing(providerkit.Refused, "the server is read-only")
	case number == optionPrevents:
		return Is(providerkit.NotSetUp)
	}
	return mysqlNumbers[number]
}

// isReadOnlyOption reports whether the option that prevents a statement is one of those that make a server
// read-only: --read-only, --super-read-only, --innodb-read-only.
func isReadOnlyOption(text string) bool {
	return strings.Contains(strings.ReplaceAll(strings.ToLower(text), "_", "-"), "read-only")
}
