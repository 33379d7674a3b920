package sqllease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// schemaVersion is the version of the tables that this code reads and writes.
// No earlier one was released, so nothing migrates from it.
const schemaVersion = 5

// Beside the table of leases, "lease", stand these.
const (
	historySuffix = "_history"
	waitersSuffix = "_waiters" // on PostgreSQL
	schemaSuffix  = "_schema"  // one row for the version that was installed
)

// tables say where the tables are, and what all dialects do with them.
type tables struct {
	schema, table string   // schema is "" but on PostgreSQL
	quote         string   // around a name
	suffixes      []string // of those tables, but for the versions'
	create        []string // the statements that make them
	// All statements. exists says whether there is a table, version which version ours have; history and newest are a page of a
	// name's history, from its beginning and from its end.
	sql map[string]string
}

// newTables are the tables of the statements in folders, by the names of their files. holes are those of the dialect.
func newTables(schema, table, quote string, holes map[string]string, folders ...string) tables {
	t := tables{schema: schema, table: table, quote: quote, suffixes: []string{"", historySuffix}}
	maps.Copy(holes, map[string]string{
		"table": table, "lease": t.name(""), "history": t.name(historySuffix), "waiters": t.name(waitersSuffix), "schema": t.name(schemaSuffix),
		"version": strconv.Itoa(schemaVersion),
	})
	t.sql = statementsIn(holes, folders...)
	t.create = strings.Split(t.sql["schema"], ";\n")
	return t
}

// name is that of a table in a statement. Names have letters, digits and underscores only.
func (t *tables) name(suffix string) string {
	name := t.quote + t.table + suffix + t.quote
	if t.schema != "" {
		name = t.quote + t.schema + t.quote + "." + name
	}
	return name
}

// installed is the version of our tables: 0 if there are none.
func (t *tables) installed(ctx context.Context, on statements) (version int, err error) {
	there, err := t.there(ctx, on, schemaSuffix)
	if err != nil || !there {
		return 0, err
	}
	err = on.query(ctx, t.sql["version"], nil, func(scan scan) error { return scan(&version) })
	return version, err
}

func (t *tables) there(ctx context.Context, on statements, suffix string) (there bool, err error) {
	args := []any{t.table + suffix}
	if t.schema != "" {
		args = append(args, t.schema)
	}
	err = on.query(ctx, t.sql["exists"], args, func(scan scan) error { return scan(&there) })
	return there, err
}

// install makes the tables, in a transaction that keeps others from doing so.
func (t *tables) install(ctx context.Context, on statements, statements []string) error {
	found, err := t.installed(ctx, on)
	if err != nil || found != 0 {
		return errors.Join(err, checkVersion(found))
	}
	begun, err := t.there(ctx, on, schemaSuffix) // where each statement is a transaction
	if err != nil {
		return err
	}
	for _, suffix := range t.suffixes {
		if there, err := t.there(ctx, on, suffix); err != nil {
			return err
		} else if there && !begun {
			table := strings.TrimPrefix(t.schema+"."+t.table+suffix, ".")
			return fmt.Errorf("%w: there is a table %s that leasing has not made: set another Schema or Table", abstractions.ErrNotSetUp, table)
		}
	}
	for _, statement := range statements {
		if err := run(ctx, on, statement); err != nil {
			return err
		}
	}
	return nil
}

// SetupError is returned by Migrate if the role may not create the tables, and
// matches leasing.ErrNotSetUp. Somebody who may has to run Statements once.
type SetupError struct {
	Role       string // of the database that lacks the right; "" on SQLite
	Statements []string
	Err        error // of the client library
}

func (e *SetupError) Error() string {
	who := "this process"
	if e.Role != "" {
		who = fmt.Sprintf("role %q", e.Role)
	}
	return fmt.Sprintf("%v: %s may not create the tables (%v); run this as somebody who may:\n%s;", abstractions.ErrNotSetUp, who, e.Err, strings.Join(e.Statements, ";\n"))
}

// Is makes the error match leasing.ErrNotSetUp.
func (e *SetupError) Is(target error) bool { return target == abstractions.ErrNotSetUp }

func (e *SetupError) Unwrap() error { return e.Err }

// Migrate creates the tables. It does nothing if they exist, needs rights to create
// only if they are missing, and may be called by several processes at a time. It
// changes no table: tables of another application, and those of older or newer code,
// are reported as leasing.ErrNotSetUp.
func (p *Provider) Migrate(ctx context.Context) error {
	return providerkit.Call(ctx, p.shell, "migrate", "", p.driver.migrate)
}

func (d *driver) migrate(ctx context.Context) error {
	found, err := d.backend.version(ctx)
	if err == nil && found == 0 {
		err = d.backend.migrate(ctx)
		if setup := (*SetupError)(nil); err != nil && d.backend.verdict(err).Class == providerkit.Denied && !errors.As(err, &setup) {
			err = &SetupError{Statements: d.tables.create, Err: err}
		}
	} else if err == nil {
		err = checkVersion(found)
	}
	if err == nil {
		d.checked.Store(time.Now().UnixNano())
	}
	return err
}

// Statements returns what Migrate runs on an empty database, for those who
// create tables with tools of their own.
func (p *Provider) Statements() []string { return slices.Clone(p.driver.tables.create) }

func checkVersion(found int) error {
	switch {
	case found == 0:
		return &providerkit.AdvisedError{
			Err: fmt.Errorf("%w: the tables are missing", abstractions.ErrNotSetUp), Advice: "call Migrate, or set sqllease.Options.Create",
		}
	case found < schemaVersion:
		return fmt.Errorf("%w: the tables are of the old version %d, which this code, of version %d, can't migrate: drop them, or set another Table", abstractions.ErrNotSetUp, found, schemaVersion)
	case found > schemaVersion:
		return fmt.Errorf("%w: the tables are of version %d, and this code knows versions up to %d: use a newer release of providers/sql", abstractions.ErrNotSetUp, found, schemaVersion)
	}
	return nil
}
