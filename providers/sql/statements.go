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
