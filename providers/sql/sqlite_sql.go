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
		"row": `version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters,
	boot, boot_us`,
	}, "common", "sqlite"), "", table, historySuffix)
}

// sqliteColumns is how many of storedRow.columns are read and stored.
const sqliteColumns = 16
