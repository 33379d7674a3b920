package sqllease

import (
	"embed"
	"strconv"
	"strings"
)

//go:embed mariadb/*.sql
var mysqlFiles embed.FS

// newMySQL fills in the statements for one table, by the names of their files. Times are in microseconds since 1970: sessions are in UTC.
func newMySQL(table string) (statements map[string]string, t tables) {
	holes := map[string]string{
		"lease":   "`" + table + "`",
		"history": "`" + table + historySuffix + "`",
		"schema":  "`" + table + schemaSuffix + "`",
		"version": strconv.Itoa(schemaVersion),
		// The start of the statement, and the time at which this is evaluated.
		"start": "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', NOW(6))",
		"now":   "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))",
		// Columns in the order of mysqlRow.columns, of a row that may be missing. The clock is asked once that is read.
		"row": `coalesce(l.version, 0), coalesce(l.token, 0), coalesce(l.id, ''), coalesce(l.owner, ''), l.ttl_us, coalesce(l.metadata, '{}'),
	l.acquired_us, l.expires_us, coalesce(l.breaking, 0), coalesce(l.broken_by, ''), coalesce(l.break_reason, ''), coalesce(l.ended, ''), coalesce(l.waiters, ''), {{now}}`,
		// The rows of a list in JSON.
		"each": "JSON_TABLE(?, '$[*]' COLUMNS (name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$.name', version BIGINT PATH '$.version'",
		"join": ")) AS r STRAIGHT_JOIN {{lease}} AS l ON l.name = CAST(r.name AS BINARY)",
	}
	s := statementsIn(mysqlFiles, "mariadb", holes)
	return s, tables{
		table: table, others: []string{historySuffix},
		exists:  "SELECT count(*) > 0 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?",
		version: "SELECT coalesce(max(version), 0) FROM " + holes["schema"],
		history: s["history"], newest: s["newest"],
		create: strings.Split(s["schema"], ";\n"),
	}
}
