package postgreslease

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/postgres/pgkit"
	"github.com/jackc/pgx/v5"
)

// Version reads the catalogue before the table, since the error would be the same for a missing table and for a table that this
// role may not see. Every role can read the catalogue, even without permissions on the schema. Version also reads the default
// isolation level and the encoding of texts.
func (p *postgres) Version(ctx context.Context) (int, error) {
	err := p.db.Query(ctx, pgkit.Settings, nil, func(scan dialect.Scan) error {
		strict, err := pgkit.Session(scan)
		p.db.strictIsolation.Store(strict)
		return err
	})
	if err != nil {
		return 0, err
	}
	return p.Tables.Installed(ctx, p.db)
}

const setUpQuery = `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1::text), current_user::text,
	pg_catalog.pg_encoding_to_char((SELECT encoding FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()))`

// Migrate runs in one transaction under an advisory lock of the schema, so that
// processes that start together migrate one after the other, whatever their tables.
func (p *postgres) Migrate(ctx context.Context) error {
	var there bool
	var role, encoding string
	err := p.db.Query(ctx, setUpQuery, []any{p.Tables.Schema}, func(scan dialect.Scan) error { return scan(&there, &role, &encoding) })
	if err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fmt.Errorf("%w: the database is encoded in %s; leases need one in UTF8", abstractions.ErrNotSetUp, encoding)
	}
	found, err := p.Tables.Installed(ctx, p.db)
	if err != nil {
		return err
	}
	statements := p.Tables.Pending(found)
	if there && found == 0 { // CREATE SCHEMA needs a permission, even if the schema exists
		statements = statements[1:]
	}
	err = p.install(ctx, statements)
	if err != nil && p.Verdict(err).Class == providerkit.Denied {
		return &sqllease.SetupError{Role: role, Statements: append(slices.Clone(statements), p.grants(role)...), Err: err}
	}
	return err
}

func (p *postgres) install(ctx context.Context, create []string) error {
	tx, err := p.db.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted}) // so it sees tables that were made before it got the lock
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	on := dialect.Statements(dialect.ViaSQL{Querier: tx})
	if p.db.exec.Load() {
		on = unprepared{on}
	}
	// CREATE SCHEMA IF NOT EXISTS fails if another process runs it at the same time.
	const lock = "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('github.com/distributedleasing/leasing ' || $1::text, 0))"
	if err := dialect.Run(ctx, on, lock, p.Schema); err != nil {
		return err
	}
	if err := p.Tables.Install(ctx, on, create); err != nil {
		return err
	}
	return tx.Commit()
}

// grants returns the statements that grant a role its permissions at run time.
func (p *postgres) grants(role string) []string {
	to := pgx.Identifier{role}.Sanitize()
	return []string{
		"GRANT USAGE ON SCHEMA " + pgx.Identifier{p.Schema}.Sanitize() + " TO " + to,
		"GRANT SELECT, INSERT, UPDATE, DELETE ON " + p.Name("") + ", " + p.Name(dialect.HistorySuffix) + ", " + p.Name(dialect.WaitersSuffix) + " TO " + to,
		"GRANT SELECT, UPDATE (swept) ON " + p.Name(dialect.SchemaSuffix) + " TO " + to,
	}
}
