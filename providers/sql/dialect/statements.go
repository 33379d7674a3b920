package dialect

import (
	"embed"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// RowStatements are the statements that are the same in all dialects of a [RowStore].
//
//go:embed common/*.sql
var RowStatements embed.FS

var (
	sqlComment = regexp.MustCompile(`(?m)^--.*\n`)
	sqlHole    = regexp.MustCompile(`\{\{[^{}]*\}\}`)
)

// statementsIn returns the statements of the "*.sql" files one folder deep, keyed by file name without ".sql".
func statementsIn(holes map[string]string, all ...fs.FS) map[string]string {
	s := map[string]string{}
	for _, files := range all {
		names, _ := fs.Glob(files, "*/*.sql") // the pattern is valid
		for _, name := range names {
			s[strings.TrimSuffix(path.Base(name), ".sql")] = StatementIn(files, name, holes)
		}
	}
	return s
}

// StatementIn reads a file and fills its holes, beginning with the innermost holes. {{name:argument}} becomes holes[name] with
// each question mark replaced by the argument.
func StatementIn(files fs.FS, file string, holes map[string]string) string {
	text, err := fs.ReadFile(files, file)
	if err != nil {
		panic(err) // it is embedded
	}
	statement := strings.TrimSpace(sqlComment.ReplaceAllString(string(text), ""))
	for sqlHole.MatchString(statement) {
		statement = sqlHole.ReplaceAllStringFunc(statement, func(hole string) string {
			name, argument, takes := strings.Cut(strings.Trim(hole, "{}"), ":")
			text, known := holes[name]
			if !known {
				panic("dialect: " + file + ": nothing for " + hole)
			}
			if takes { // without an argument, question marks are parameters
				text = strings.ReplaceAll(text, "?", argument)
			}
			return text
		})
	}
	return statement
}

// Repeated completes a statement that takes a list of n items. A comment in the statement has the text of each further item.
func Repeated(n int, statement string) string {
	begin, rest, _ := strings.Cut(statement, "/*")
	each, end, _ := strings.Cut(rest, "*/")
	return begin + strings.Repeat(each, n-1) + end
}
