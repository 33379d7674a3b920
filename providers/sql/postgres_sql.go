package sqllease

import (
	"embed"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/jackc/pgx/v5"
)

//go:embed postgres/*.sql
var postgresFiles embed.FS

// postgresSQL is the statements for one schema and table.
type postgresSQL struct {
	read, write, acquire, release, renew, renewNow string
	list, sweep, sweepHistory                      string
}

// newPostgresSQL fills in the statements. Where a connection must never wait for a
// row lock, a locked row is an error (55P03, lock_not_available).
func newPostgresSQL(o Options, waits bool) (postgresSQL, tables) {
	versions := pgx.Identifier{o.Schema, o.Table + schemaSuffix}.Sanitize()
	holes := map[string]string{
		"lease":         pgx.Identifier{o.Schema, o.Table}.Sanitize(),
		"history":       pgx.Identifier{o.Schema, o.Table + historySuffix}.Sanitize(),
		"history_index": pgx.Identifier{o.Table + historySuffix + "_by_name"}.Sanitize(),
		"namespace":     pgx.Identifier{o.Schema}.Sanitize(),
		"schema":        versions,
		"version":       strconv.Itoa(schemaVersion),
		"now":           "pg_catalog.clock_timestamp()",
		"history_us":    strconv.FormatInt(finite(o.HistoryRetention).Microseconds(), 10),
		"ended_least":   strconv.Itoa(providerkit.EndedLeast),
		"ended_most":    strconv.Itoa(providerkit.EndedMost),
		"ended_for":     strconv.Itoa(int(providerkit.EndedFor / time.Second)),
		"lock":          "FOR UPDATE OF l",
	}
	if !waits {
		holes["lock"] += " NOWAIT"
	}
	s := postgresSQL{
		read:         postgresText("read", holes),
		write:        postgresText("write", holes),
		acquire:      postgresText("acquire", holes),
		release:      postgresText("release", holes),
		renew:        postgresText("renew", holes),
		list:         postgresText("list", holes),
		sweep:        postgresText("sweep", holes),
		sweepHistory: postgresText("sweep_history", holes),
	}
	t := tables{
		schema: o.Schema, table: o.Table, exists: tableExists,
		version: "SELECT coalesce(pg_catalog.max(version), 0) FROM " + versions,
		history: postgresText("history", holes),
		create:  strings.Split(postgresText("schema", holes), ";\n"),
	}
	holes["lock"] = "FOR UPDATE OF l SKIP LOCKED"
	s.renewNow = postgresText("renew", holes)
	return s, t
}

var (
	sqlComment = regexp.MustCompile(`(?m)^--.*\n`)
	sqlHole    = regexp.MustCompile(`\{\{([^{}:]*):?([^{}]*)\}\}`)
)

// postgresText reads a file and fills its holes, the inner ones first: with what
// holes has for a name, or with one of fragments.
func postgresText(file string, holes map[string]string) string {
	text, err := postgresFiles.ReadFile("postgres/" + file + ".sql")
	if err != nil {
		panic(err) // it is embedded
	}
	statement := strings.TrimSpace(sqlComment.ReplaceAllString(string(text), ""))
	for sqlHole.MatchString(statement) {
		statement = sqlHole.ReplaceAllStringFunc(statement, func(hole string) string {
			parts := sqlHole.FindStringSubmatch(hole)
			if fragment, known := fragments[parts[1]]; known {
				return strings.ReplaceAll(fragment, "?", parts[2])
			}
			text, known := holes[parts[1]]
			if !known {
				panic("sqllease: " + file + ".sql: nothing for " + hole)
			}
			return text
		})
	}
	return statement
}

// fragments stand for {{name:argument}}, with the argument for each question mark.
//
// An operator is named with its schema where its operands are not exactly of the
// types of one in pg_catalog: any schema of the search path may have one that is
// (https://www.postgresql.org/docs/current/typeconv-oper.html).
var fragments = map[string]string{
	// A time in microseconds since 1970: as text its form depends on DateStyle.
	"micros": "(extract(epoch FROM ?) OPERATOR(pg_catalog.*) 1000000)::bigint",
	// So many microseconds.
	"span": "(? OPERATOR(pg_catalog.*) interval '1 microsecond')",
	// The columns of pgRow, of a row that may be missing.
	"row": `coalesce(?.version, 0), coalesce(?.token, 0), coalesce(?.id, ''), coalesce(?.owner, ''), ?.ttl_us, coalesce(?.metadata::text, '{}'),
	{{micros:?.acquired_at}}, {{micros:?.expires_at}}, coalesce(?.breaking, false), coalesce(?.broken_by, ''), coalesce(?.break_reason, ''), coalesce(?.ended, '')`,
	// Of so many of the oldest entries of the history, deletes those that are too old.
	"trim": `trimmed AS (
	DELETE FROM {{history}} WHERE at < {{now}} - {{span:{{history_us}}}}
		AND seq IN (SELECT seq FROM {{history}} ORDER BY seq LIMIT ?::int FOR UPDATE SKIP LOCKED)
	RETURNING 1
)`,
}
