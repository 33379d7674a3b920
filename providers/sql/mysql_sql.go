package sqllease

import "strconv"

// newMySQL fills in the statements for one table, by the names of their files. Times are in microseconds since 1970: sessions are in UTC.
func newMySQL(table string) tables {
	return newTables(statementsIn(map[string]string{
		"lease":   "`" + table + "`",
		"history": "`" + table + historySuffix + "`",
		"schema":  "`" + table + schemaSuffix + "`",
		"version": strconv.Itoa(schemaVersion),
		// The start of the statement, and the time at which this is evaluated.
		"start": "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', NOW(6))",
		"now":   "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))",
		// Columns in the order of storedRow.columns, after the name, of a row that may be missing. The start is never later than what
		// is seen; the clock is asked once the row is read.
		"row": `coalesce(l.version, 0), coalesce(l.token, 0), coalesce(l.id, ''), coalesce(l.owner, ''), l.ttl_us,
	coalesce(l.metadata, '{}'), l.acquired_us, coalesce(l.expires_us, 0), coalesce(l.breaking, 0), coalesce(l.broken_by, ''),
	coalesce(l.break_reason, ''), coalesce(l.ended, ''), coalesce(l.waiters, ''), '', 0, {{start}}, {{now}}`,
	}, "common", "mariadb"), "", table, historySuffix)
}

// mysqlColumns is how many of storedRow.columns are read, and mysqlStored how many are stored.
const mysqlColumns, mysqlStored = 18, 14
