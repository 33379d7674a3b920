package dialect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strconv"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// SchemaVersion is the version of the tables that this code reads and writes.
// No earlier one was released, so nothing migrates from it.
const SchemaVersion = 5

// Beside the table of leases, "lease", stand these.
const (
	HistorySuffix = "_history"
	WaitersSuffix = "_waiters" // on PostgreSQL
	SchemaSuffix  = "_schema"  // one row for the version that was installed
)

// Tables say where the tables are, and what all dialects do with them.
type Tables struct {
	Schema, Table string   // schema is "" but on PostgreSQL
	quote         string   // around a name
	Suffixes      []string // of those tables, but for the versions'
	Create        []string // the statements that make them
	// All statements. exists says whether there is a table, version which version ours have; history and newest are a page of a
	// name's history, from its beginning and from its end.
	SQL map[string]string
}

// NewTables returns tables with the statements in files: each "*.sql" one folder deep, by its name. Holes are those of the dialect.
func NewTables(schema, table, quote string, holes map[string]string, files ...fs.FS) Tables {
	t := Tables{Schema: schema, Table: table, quote: quote, Suffixes: []string{"", HistorySuffix}}
	maps.Copy(holes, map[string]string{
		"table": table, "lease": t.Name(""), "history": t.Name(HistorySuffix), "waiters": t.Name(WaitersSuffix), "schema": t.Name(SchemaSuffix),
		"version": strconv.Itoa(SchemaVersion),
	})
	t.SQL = statementsIn(holes, files...)
	t.Create = strings.Split(t.SQL["schema"], ";\n")
	return t
}

// Name is that of a table in a statement. Names have letters, digits and underscores only.
func (t *Tables) Name(suffix string) string {
	name := t.quote + t.Table + suffix + t.quote
	if t.Schema != "" {
		name = t.quote + t.Schema + t.quote + "." + name
	}
	return name
}

// Installed is the version of our tables: 0 if there are none.
func (t *Tables) Installed(ctx context.Context, on Statements) (version int, err error) {
	there, err := t.there(ctx, on, SchemaSuffix)
	if err != nil || !there {
		return 0, err
	}
	err = on.Query(ctx, t.SQL["version"], nil, func(scan Scan) error { return scan(&version) })
	return version, err
}

func (t *Tables) there(ctx context.Context, on Statements, suffix string) (there bool, err error) {
	args := []any{t.Table + suffix}
	if t.Schema != "" {
		args = append(args, t.Schema)
	}
	err = on.Query(ctx, t.SQL["exists"], args, func(scan Scan) error { return scan(&there) })
	return there, err
}

// Install makes the tables, in a transaction that keeps others from doing so.
func (t *Tables) Install(ctx context.Context, on Statements, statements []string) error {
	found, err := t.Installed(ctx, on)
	if err != nil || found != 0 {
		return errors.Join(err, CheckVersion(found))
	}
	begun, err := t.there(ctx, on, SchemaSuffix) // where each statement is a transaction
	if err != nil {
		return err
	}
	for _, suffix := range t.Suffixes {
		if there, err := t.there(ctx, on, suffix); err != nil {
			return err
		} else if there && !begun {
			table := strings.TrimPrefix(t.Schema+"."+t.Table+suffix, ".")
			return fmt.Errorf("%w: there is a table %s that leasing has not made: set another Schema or Table", abstractions.ErrNotSetUp, table)
		}
	}
	for _, statement := range statements {
		if err := Run(ctx, on, statement); err != nil {
			return err
		}
	}
	return nil
}

// CheckVersion refuses tables of another version than [SchemaVersion]. 0 stands for missing tables.
func CheckVersion(found int) error {
	switch {
	case found == 0:
		return &providerkit.AdvisedError{
			Err: fmt.Errorf("%w: the tables are missing", abstractions.ErrNotSetUp), Advice: "call Migrate, or set Options.Create",
		}
	case found < SchemaVersion:
		return fmt.Errorf("%w: the tables are of the old version %d, which this code, of version %d, can't migrate: drop them, or set another Table", abstractions.ErrNotSetUp, found, SchemaVersion)
	case found > SchemaVersion:
		return fmt.Errorf("%w: the tables are of version %d, and this code knows versions up to %d: use a newer release of providers/sql", abstractions.ErrNotSetUp, found, SchemaVersion)
	}
	return nil
}
