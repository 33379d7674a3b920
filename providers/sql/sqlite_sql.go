package sqllease

import "strconv"

// newSqliteSQL fills in the statements for one table, whose name has letters, digits and underscores only, by the names of
// their files.
func newSqliteSQL(table string) tables {
	return newTables(statementsIn(map[string]string{
		"lease":         `"` + table + `"`,
		"history":       `"` + table + historySuffix + `"`,
		"history_index": `"` + table + historySuffix + `_by_name"`,
		"schema":        `"` + table + schemaSuffix + `"`,
		"version":       strconv.Itoa(schemaVersion),
		// Columns in the order of storedRow.columns, after the name.
		"row": `l.version, l.token, l.id, l.owner, l.ttl_us, l.metadata, l.acquired_us, l.expires_us,
	l.breaking, l.broken_by, l.break_reason, l.ended, l.waiters, l.boot, l.boot_us, 0, 0`,
	}, "common", "sqlite"), "", table, historySuffix)
}

// sqliteColumns is how many of storedRow.columns are stored.
const sqliteColumns = 16
