package sqllease

import (
	"embed"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed postgres/*.sql
var postgresFiles embed.FS

// postgresSQL is the statements for one schema and table.
type postgresSQL struct {
	read, write, acquire, release, renew, renewNow string
	list, history, sweep, sweepHistory             string
	version                                        string
	create                                         []string
}

func newPostgresSQL(schema, table string) postgresSQL {
	lease := pgx.Identifier{schema, table}.Sanitize()
	history := pgx.Identifier{schema, table + historySuffix}.Sanitize()
	versions := pgx.Identifier{schema, table + schemaSuffix}.Sanitize()
	names := map[string]string{
		"lease":         lease,
		"history":       history,
		"history_index": pgx.Identifier{table + historySuffix + "_by_name"}.Sanitize(),
		"schema":        versions,
		"remembered":    strconv.Itoa(remembered),
		"skip":          "",
	}
	s := postgresSQL{
		read:         postgresText("read", names),
		write:        postgresText("write", names),
		acquire:      postgresText("acquire", names),
		release:      postgresText("release", names),
		renew:        postgresText("renew", names),
		list:         postgresText("list", names),
		history:      postgresText("history", names),
		sweep:        postgresText("sweep", names),
		sweepHistory: postgresText("sweep_history", names),
		version:      "SELECT coalesce(max(version), 0) FROM " + versions,
	}
	names["skip"] = "SKIP LOCKED"
	s.renewNow = postgresText("renew", names)
	for _, statement := range strings.Split(postgresText("schema_1", names), ";\n") {
		s.create = append(s.create, strings.TrimSpace(statement))
	}
	return s
}

var (
	sqlComment = regexp.MustCompile(`(?m)^--.*\n`)
	sqlHole    = regexp.MustCompile(`\{\{[^}]*\}\}`)
)

// postgresText reads a file and fills its holes: {{name}} with what names
// has for it, {{micros:t}} with the time t in microseconds since 1970.
func postgresText(file string, names map[string]string) string {
	text, err := postgresFiles.ReadFile("postgres/" + file + ".sql")
	if err != nil {
		panic(err) // it is embedded
	}
	statement := sqlComment.ReplaceAllString(string(text), "")
	return sqlHole.ReplaceAllStringFunc(statement, func(hole string) string {
		hole = hole[2 : len(hole)-2]
		if instant, ok := strings.CutPrefix(hole, "micros:"); ok {
			return "(extract(epoch FROM " + instant + ") * 1000000)::bigint"
		}
		text, known := names[hole]
		if !known {
			panic("sqllease: " + file + ".sql: nothing for " + hole)
		}
		return text
	})
}
