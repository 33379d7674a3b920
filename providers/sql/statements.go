package sqllease

import (
	"embed"
	"regexp"
	"strings"
)

// The statements that are the same on SQLite and MySQL are in the folder common.
//
//go:embed common/*.sql mariadb/*.sql postgres/*.sql sqlite/*.sql
var sqlFiles embed.FS

var (
	sqlComment = regexp.MustCompile(`(?m)^--.*\n`)
	sqlHole    = regexp.MustCompile(`\{\{[^{}]*\}\}`)
)

// statementsIn are the files of folders, by their names.
func statementsIn(holes map[string]string, folders ...string) map[string]string {
	s := map[string]string{}
	for _, folder := range folders {
		list, _ := sqlFiles.ReadDir(folder)
		for _, file := range list {
			s[strings.TrimSuffix(file.Name(), ".sql")] = statementIn(folder+"/"+file.Name(), holes)
		}
	}
	return s
}

// statementIn reads a file and fills its holes, the inner ones first. The argument {{name:argument}} replaces each question mark
// in what fills it.
func statementIn(file string, holes map[string]string) string {
	text, err := sqlFiles.ReadFile(file)
	if err != nil {
		panic(err) // it is embedded
	}
	statement := strings.TrimSpace(sqlComment.ReplaceAllString(string(text), ""))
	for sqlHole.MatchString(statement) {
		statement = sqlHole.ReplaceAllStringFunc(statement, func(hole string) string {
			name, argument, takes := strings.Cut(strings.Trim(hole, "{}"), ":")
			text, known := holes[name]
			if !known {
				panic("sqllease: " + file + ": nothing for " + hole)
			}
			if takes { // else it may have parameters
				text = strings.ReplaceAll(text, "?", argument)
			}
			return text
		})
	}
	return statement
}

// repeated completes a statement that takes a list: its comment is what each item after the first adds.
func repeated(n int, statement string) string {
	begin, rest, _ := strings.Cut(statement, "/*")
	each, end, _ := strings.Cut(rest, "*/")
	return begin + strings.Repeat(each, n-1) + end
}

// sqliteTables fills in the statements for one table.
func sqliteTables(table string) tables {
	return newTables("", table, `"`, map[string]string{
		// Columns in the order of storedRow.columns, after the name.
		"row": `version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters,
	boot, boot_us`,
	}, "common", "sqlite")
}

// sqliteColumns is how many of storedRow.columns are read and stored.
const sqliteColumns = 16

// mysqlTables fills in the statements for one table. Times are in microseconds since 1970: sessions are in UTC.
func mysqlTables(table string) tables {
	return newTables("", table, "`", map[string]string{
		// The start of the statement, and the time at which this is evaluated.
		"start": "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', NOW(6))",
		"now":   "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))",
		// Columns in the order of storedRow.columns, after the name, of a row that may be missing. The start is never later than what
		// is seen; the clock is asked once the row is read.
		"row": `coalesce(l.version, 0), coalesce(l.token, 0), coalesce(l.id, ''), coalesce(l.owner, ''), l.ttl_us,
	coalesce(l.metadata, '{}'), l.acquired_us, coalesce(l.expires_us, 0), coalesce(l.breaking, 0), coalesce(l.broken_by, ''),
	coalesce(l.break_reason, ''), coalesce(l.ended, ''), coalesce(l.waiters, ''), '', 0, {{start}}, {{now}}`,
	}, "common", "mariadb")
}

// mysqlColumns is how many of storedRow.columns are read, and mysqlStored how many are stored.
const mysqlColumns, mysqlStored = 18, 14
