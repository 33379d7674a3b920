package sqllease

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/jackc/pgx/v5"
)

func (p *postgres) statements() []string { return p.allStatements(true) }

func (p *postgres) allStatements(withSchema bool) []string {
	var statements []string
	if withSchema {
		statements = append(statements, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{p.naming.schema}.Sanitize())
	}
	return append(statements, p.sql.create...)
}

// version asks for the table before it reads it: an error would be the same
// for a table that is missing and one that this role may not see.
func (p *postgres) version(ctx context.Context) (int, error) { return p.versionBy(ctx, p.db) }

func (p *postgres) versionBy(ctx context.Context, q querier) (version int, err error) {
	there, err := p.exists(ctx, q, p.naming.table+schemaSuffix)
	if err != nil || !there {
		return 0, err
	}
	err = q.query(ctx, p.sql.version, nil, func(scan scan) error { return scan(&version) })
	return version, err
}

func (p *postgres) exists(ctx context.Context, q querier, table string) (there bool, err error) {
	err = q.query(ctx, tableExists, []any{p.naming.schema, table}, func(scan scan) error { return scan(&there) })
	return there, err
}

// The catalogue can be read by everybody, also without rights on the schema.
const (
	tableExists = `SELECT EXISTS (
	SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname = $1::text AND c.relname = $2::text)`
	situation = `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1::text), current_user::text,
	pg_catalog.pg_encoding_to_char((SELECT encoding FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()))`
)

// migrate runs in one transaction under an advisory lock of the schema, so that
// processes that start together do it one after the other, whatever their tables.
func (p *postgres) migrate(ctx context.Context) error {
	var there bool
	var role, encoding string
	err := p.db.query(ctx, situation, []any{p.naming.schema}, func(scan scan) error { return scan(&there, &role, &encoding) })
	if err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fmt.Errorf("%w: the database is encoded in %s; leases need one in UTF8", abstractions.ErrNotSetUp, encoding)
	}
	statements := p.allStatements(!there)
	err = p.db.begin(ctx, func(q querier) error { return p.create(ctx, q, statements) })
	if err != nil && sqlStateClass(err) == providerkit.Denied {
		return &SetupError{Role: role, Statements: append(statements, p.grants(role)...), Err: err}
	}
	return err
}

func (p *postgres) create(ctx context.Context, q querier, statements []string) error {
	if err := run(ctx, q, "SELECT pg_catalog.pg_advisory_xact_lock($1::bigint)", p.naming.lockKey()); err != nil {
		return err
	}
	found, err := p.versionBy(ctx, q)
	if err != nil || found != 0 {
		return errors.Join(err, checkVersion(found))
	}
	for _, suffix := range []string{"", historySuffix} {
		if there, err := p.exists(ctx, q, p.naming.table+suffix); err != nil || there {
			return errors.Join(err, errForeign(p.naming.schema+"."+p.naming.table+suffix))
		}
	}
	for _, statement := range statements {
		if err := run(ctx, q, statement); err != nil {
			return err
		}
	}
	return nil
}

// grants are what a role needs at run time.
func (p *postgres) grants(role string) []string {
	schema, to := pgx.Identifier{p.naming.schema}.Sanitize(), pgx.Identifier{role}.Sanitize()
	tables := ""
	for _, suffix := range []string{"", historySuffix} {
		tables += pgx.Identifier{p.naming.schema, p.naming.table + suffix}.Sanitize() + ", "
	}
	return []string{
		"GRANT USAGE ON SCHEMA " + schema + " TO " + to,
		"GRANT SELECT, INSERT, UPDATE, DELETE ON " + tables[:len(tables)-2] + " TO " + to,
		"GRANT SELECT, UPDATE (swept) ON " + pgx.Identifier{p.naming.schema, p.naming.table + schemaSuffix}.Sanitize() + " TO " + to,
	}
}

// run runs a statement for its effect.
func run(ctx context.Context, q querier, statement string, args ...any) error {
	return q.query(ctx, statement, args, func(scan) error { return nil })
}

// lockKey is the advisory lock that guards migrations in the schema: CREATE SCHEMA
// IF NOT EXISTS fails too if it meets another one.
func (n naming) lockKey() int64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "github.com/distributedleasing/leasing %q", n.schema)
	return int64(h.Sum64())
}
