package dialect

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"strconv"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// SchemaVersion is the version of the tables that this release reads and writes. Release 0.1.0 has version 1.
const SchemaVersion = 1

// The suffixes of all tables except "lease", the table of leases.
const (
	HistorySuffix = "_history"
	WaitersSuffix = "_waiters" // on PostgreSQL
	SchemaSuffix  = "_version" // one row for the version of the tables
)

// Tables has the names of the tables, and the operations on tables that all dialects share.
type Tables struct {
	Schema, Table string   // schema is "" except on PostgreSQL and SQL Server
	quote         string   // the opening and the closing mark of a quoted name
	Suffixes      []string // the suffixes of these tables, except the table of versions
	Create        []string // the statements that make the tables
	// All statements, by name. exists reports whether a table exists, and version returns the version of our tables. history and
	// newest return a page of a name's history, from its beginning and from its end. step_2 brings tables of version 1 to version
	// 2, and so on: see Pending.
	SQL map[string]string
	// Version is SchemaVersion unless a test sets another.
	Version int
}

// NewTables returns tables with the statements of the "*.sql" files one folder deep in files, keyed by file name without
// ".sql". A later file replaces an earlier file of the same name. quote is one mark, or two as in "[]". holes are the
// dialect's own.
func NewTables(schema, table, quote string, holes map[string]string, files ...fs.FS) Tables {
	t := Tables{Schema: schema, Table: table, quote: quote, Suffixes: []string{"", HistorySuffix}, Version: SchemaVersion}
	maps.Copy(holes, map[string]string{
		"table": table, "lease": t.Name(""), "history": t.Name(HistorySuffix), "waiters": t.Name(WaitersSuffix), "schema": t.Name(SchemaSuffix),
		"version": strconv.Itoa(SchemaVersion),
	})
	t.SQL = statementsIn(holes, files...)
	t.Create = strings.Split(t.SQL["schema"], ";\n")
	return t
}

// Name returns the name of a table in a statement. Names have letters, digits and underscores only.
func (t *Tables) Name(suffix string) string {
	begin, end := t.quote[:1], t.quote[len(t.quote)-1:]
	name := begin + t.Table + suffix + end
	if t.Schema != "" {
		name = begin + t.Schema + end + "." + name
	}
	return name
}

// Installed returns the version of our tables, or 0 without tables.
func (t *Tables) Installed(ctx context.Context, on Statements) (version int, err error) {
	there, err := t.exists(ctx, on, SchemaSuffix)
	if err != nil || !there {
		return 0, err
	}
	err = on.Query(ctx, t.SQL["version"], nil, func(scan Scan) error { return scan(&version) })
	return version, err
}

func (t *Tables) exists(ctx context.Context, on Statements, suffix string) (there bool, err error) {
	args := []any{t.Table + suffix}
	if t.Schema != "" {
		args = append(args, t.Schema)
	}
	err = on.Query(ctx, t.SQL["exists"], args, func(scan Scan) error { return scan(&there) })
	return there, err
}

// Pending returns the statements that bring tables of a version up to date. For version 0 they make the tables.
//
// A step keeps the rows, and is a file step_N.sql of the dialect. Where each statement is a transaction, as on MariaDB, a step may
// run twice, so its statements have IF NOT EXISTS. An open provider of an earlier release may use the tables for another 10
// seconds.
func (t *Tables) Pending(found int) (statements []string) {
	if found == 0 {
		return t.Create
	}
	for version := found + 1; version <= t.Version; version++ {
		statements = append(statements, strings.Split(t.SQL["step_"+strconv.Itoa(version)], ";\n")...)
		statements = append(statements, fmt.Sprintf("UPDATE %s SET version = %d", t.Name(SchemaSuffix), version))
	}
	return statements
}

// Install makes the tables, or migrates those of an earlier version, in a transaction or under a lock that keeps other
// processes from migrating at the same time.
func (t *Tables) Install(ctx context.Context, on Statements, create []string) error {
	found, err := t.Installed(ctx, on)
	switch {
	case err != nil:
		return err
	case found > t.Version:
		return t.Check(found)
	case found > 0:
		return runAll(ctx, on, t.Pending(found))
	}
	begun, err := t.exists(ctx, on, SchemaSuffix) // an earlier Install may have been cut off, where each statement is a transaction
	if err != nil {
		return err
	}
	for _, suffix := range t.Suffixes {
		if there, err := t.exists(ctx, on, suffix); err != nil {
			return err
		} else if there && !begun {
			table := strings.TrimPrefix(t.Schema+"."+t.Table+suffix, ".")
			return fmt.Errorf("%w: the table %s is of another application, or of a release before 0.1.0: drop the table, or set another Schema or Table", abstractions.ErrNotSetUp, table)
		}
	}
	return runAll(ctx, on, create)
}

func runAll(ctx context.Context, on Statements, statements []string) error {
	for _, statement := range statements {
		if err := Run(ctx, on, statement); err != nil {
			return err
		}
	}
	return nil
}

// Check refuses tables of another version. 0 stands for missing tables.
func (t *Tables) Check(found int) error {
	switch {
	case found == 0:
		return &providerkit.AdvisedError{
			Err: fmt.Errorf("%w: the tables are missing", abstractions.ErrNotSetUp), Advice: "call Migrate, or set Options.Create",
		}
	case found < t.Version:
		return &providerkit.AdvisedError{
			Err: fmt.Errorf("%w: the tables are of version %d, and this release needs version %d", abstractions.ErrNotSetUp, found, t.Version), Advice: "call Migrate, or set Options.Create",
		}
	case found > t.Version:
		return fmt.Errorf("%w: the tables are of version %d, and this release knows versions up to %d: use the newer release of providers/sql", abstractions.ErrNotSetUp, found, t.Version)
	}
	return nil
}
