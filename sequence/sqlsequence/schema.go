package sqlsequence

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/providers/sql/postgres/pgkit"
)

// SetupError is returned by Migrate if the role may not create the tables, and matches
// leasing.ErrNotSetUp. A role that has this permission must run Statements once.
type SetupError struct {
	Role       string // the database role that lacks the permission
	Statements []string
	Err        error // of the client library
}

func (e *SetupError) Error() string {
	return fmt.Sprintf("sequence: %v: role %q may not create the tables (%v); run this as a user with that right:\n%s;", leasing.ErrNotSetUp, e.Role, e.Err, strings.Join(e.Statements, ";\n"))
}

// Is makes the error match leasing.ErrNotSetUp.
func (e *SetupError) Is(target error) bool { return target == leasing.ErrNotSetUp }

func (e *SetupError) Unwrap() error { return e.Err }

// tableNames are the names of the tables, after the prefix. The audit's table is eventTableName.
var tableNames = []string{"stream", "entry", "manual", "version"}

const eventTableName = "event"

// Statements returns the statements that Migrate runs on an empty database, for applications that create
// tables with their own tools.
func (s *Store[Tx]) Statements() []string {
	if !s.audit {
		return slices.Clone(s.sql.create)
	}
	return slices.Concat(s.sql.create, s.sql.audit)
}

// Migrate creates the tables, or brings those of an earlier version up to date in one transaction. Running programs of the
// earlier release continue, and others then refuse to start. If the tables are of this release's version, Migrate does nothing
// and needs no permission to create tables. Several processes may call it at the same time. Tables of another application, of a
// later release, and of a release before 0.1.0 are left unchanged. For these the error matches leasing.ErrNotSetUp.
func (s *Store[Tx]) Migrate(ctx context.Context) error {
	statements, err := s.missing(ctx, s.on)
	if err != nil || len(statements) == 0 {
		return s.explain(err)
	}
	var there bool // whether the schema exists: CREATE SCHEMA needs a permission even then
	var role string
	if !s.lite {
		const situation = `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = CAST($1 AS TEXT)), CAST(current_user AS TEXT)`
		if err := s.on.query(ctx, situation, []any{s.schema}, func(scan scan) error { return scan(&there, &role) }); err != nil {
			return s.explain(err)
		}
	}
	err = s.on.transact(ctx, false, func(on session, _ Tx) error {
		if err := s.lockMigrations(ctx, on); err != nil {
			return err
		}
		if statements, err = s.missing(ctx, on); err != nil {
			return err
		}
		if there && len(statements) > 0 && statements[0] == s.sql.create[0] {
			statements = statements[1:]
		}
		for _, statement := range statements {
			if _, err := hasRow(ctx, on, statement); err != nil {
				return err
			}
		}
		return nil
	})
	err = s.explain(err)
	if err != nil && errors.Is(err, leasing.ErrDenied) && !s.lite {
		return &SetupError{Role: role, Statements: append(slices.Clone(statements), s.grants(role)...), Err: err}
	}
	return err
}

// lockMigrations serializes the migrations of processes that start together. For SQLite, whose
// transactions lock the file at the first write, it creates and drops a table.
func (s *Store[Tx]) lockMigrations(ctx context.Context, on session) error {
	if s.lite {
		_, err := hasRow(ctx, on, `CREATE TABLE "`+s.prefix+`lock" (x INTEGER)`)
		if err == nil {
			_, err = hasRow(ctx, on, `DROP TABLE "`+s.prefix+`lock"`)
		}
		return err
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "github.com/distributedleasing/leasing/sequence %q %q", s.schema, s.prefix)
	_, err := hasRow(ctx, on, `SELECT 1 FROM (SELECT pg_catalog.pg_advisory_xact_lock(CAST($1 AS BIGINT))) AS locked`, int64(h.Sum64()))
	return err
}

// missing returns the statements that create the missing tables. It checks that existing tables have the version of this code,
// and that connections use UTF8, since an operation's ID in two encodings would be two operations. SQL_ASCII passes UTF-8 on
// unchanged.
func (s *Store[Tx]) missing(ctx context.Context, on session) (statements []string, err error) {
	if !s.lite {
		err := on.query(ctx, pgkit.Settings, nil, func(scan scan) error {
			strict, err := pgkit.Session(scan)
			s.strict.Store(strict)
			if errors.Is(err, leasing.ErrNotSetUp) {
				err = answer(fmt.Errorf("sequence: %w", err))
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	// One statement reads all names, since another process may be committing the tables at that moment.
	there := map[string]bool{}
	args := []any{s.prefix, len(s.prefix)}
	if !s.lite {
		args = append(args, s.schema)
	}
	err = on.query(ctx, s.sql.tables, args, func(scan scan) error {
		var name string
		err := scan(&name)
		there[name] = true
		return err
	})
	if err != nil {
		return nil, err
	}
	found := 0
	for _, name := range tableNames {
		if there[name] {
			found++
		}
	}
	switch found {
	case 0:
		return s.Statements(), nil
	case len(tableNames):
	default:
		return nil, answer(fmt.Errorf("sequence: %w: the tables %s... are of another application, or of a release before 0.1.0: drop the tables, or set another Options.Prefix", leasing.ErrNotSetUp, s.prefix))
	}
	var version int
	if err := on.query(ctx, s.sql.version, nil, func(scan scan) error { return scan(&version) }); err != nil {
		return nil, err
	}
	if known := 1 + len(s.sql.steps); version < 1 || version > known {
		return nil, answer(fmt.Errorf("sequence: %w: the tables are of version %d, and this release knows versions up to %d: use the newer release of sequence, or set another Options.Prefix", leasing.ErrNotSetUp, version, known))
	}
	statements = slices.Concat(s.sql.steps[version-1:]...)
	if s.audit && !there[eventTableName] {
		return slices.Concat(statements, s.sql.audit), nil
	}
	return statements, nil
}

// check verifies once that the tables exist and have the version of this release.
func (s *Store[Tx]) check(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	missing, err := s.missing(ctx, s.on)
	if err == nil && len(missing) > 0 {
		err = answer(fmt.Errorf("sequence: %w: tables are missing, or older than this release: call Migrate", leasing.ErrNotSetUp))
	}
	if p, ok := s.on.(preparing); ok && err == nil {
		q := s.sql
		err = p.prepare(ctx, []string{q.lock, q.lease, q.again, q.find, q.get, q.renew, q.save, q.commit, q.commitInOrder, q.release, q.claim, q.through, q.entries, q.status, q.lowest})
	}
	s.checked.Store(err == nil)
	return s.explain(err)
}

// grants returns the statements that give a role the permissions that it needs at run time.
func (s *Store[Tx]) grants(role string) []string {
	to := `"` + strings.ReplaceAll(role, `"`, `""`) + `"`
	var tables []string
	for _, name := range tableNames {
		tables = append(tables, `"`+s.schema+`"."`+s.prefix+name+`"`)
	}
	if s.audit {
		tables = append([]string{`"` + s.schema + `"."` + s.prefix + eventTableName + `"`}, tables...)
	}
	last := len(tables) - 1
	return []string{
		`GRANT USAGE ON SCHEMA "` + s.schema + `" TO ` + to,
		"GRANT SELECT, INSERT, UPDATE, DELETE ON " + strings.Join(tables[:last], ", ") + " TO " + to,
		"GRANT SELECT ON " + tables[last] + " TO " + to,
	}
}
