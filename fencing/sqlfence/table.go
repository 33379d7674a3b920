package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/fencing/internal/cause"
)

// Table remembers the highest token that each resource has seen, in a table
// of the database that holds the resource. It is immutable and safe for
// concurrent use.
//
// Do the check and the write in one transaction: the check locks the
// resource's row, so that no other token is admitted until the commit. It is
// correct at READ COMMITTED, PostgreSQL's default, and above. At higher
// levels the database may report a serialization failure; then retry the
// transaction.
type Table struct {
	style   Placeholders
	name    string // quoted
	advance string
}

// Tx is an open transaction: *sql.Tx. Commit and Rollback are never called;
// requiring them excludes *sql.DB and *sql.Conn, which would run the check
// and the statement in separate transactions.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	Commit() error
	Rollback() error
}

// NewTable describes a table for a database with the given style. An empty name
// means "fencing"; a schema may precede it, as in "leasing.fencing". Without a
// schema PostgreSQL's search_path selects the table, which must be the same for all
// writers. Case matters if it matters in the database. Nothing is sent.
func NewTable(style Placeholders, name string) (*Table, error) {
	if err := style.validate(); err != nil {
		return nil, err
	}
	if name == "" {
		name = "fencing"
	}
	quoted, err := quoteTable(name)
	if err != nil {
		return nil, err
	}
	resource := style.at(1)
	if style == Dollar { // a text would depend on the connection's client_encoding, and a name in two encodings would become two names
		resource = "pg_catalog.convert_from(" + resource + ", 'UTF8')"
	}
	// ON CONFLICT DO UPDATE locks the conflicting row and sees its latest version
	// (postgresql.org/docs/current/transaction-iso.html), so the answer holds
	// until the transaction ends. An unchanged token is also written, to get
	// the lock.
	advance := fmt.Sprintf(`INSERT INTO %s AS seen (resource, token) VALUES (%s, %s)`+
		` ON CONFLICT (resource) DO UPDATE SET token =`+
		` CASE WHEN seen.token > excluded.token THEN seen.token ELSE excluded.token END`+
		` RETURNING token`, quoted, resource, style.at(2))
	return &Table{style: style, name: quoted, advance: advance}, nil
}

// CreateSQL returns the statement that creates the table if it is missing. Run
// it once, with your migrations: PostgreSQL may fail one of two sessions that
// run it at the same moment.
func (t *Table) CreateSQL() string {
	return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (`+
		`resource text NOT NULL PRIMARY KEY, `+
		`token bigint NOT NULL CHECK (token BETWEEN 1 AND %d))`, t.name, int64(leasing.MaxToken))
}

// AdvanceSQL returns the statement behind Advance and its arguments, for transactions
// that do not use database/sql. It returns one row with one column, the highest token
// seen, including this token. Pass that to fencing.Check: if the token is stale, roll
// back.
func (t *Table) AdvanceSQL(resource string, token int64) (query string, args []any, err error) {
	if invalid, is := errors.AsType[*leasing.InvalidError](leasing.ValidateName(resource)); is {
		return "", nil, &leasing.InvalidError{Field: "resource", Value: invalid.Value, Want: invalid.Want}
	}
	if err := fencing.Check(resource, token, 0); err != nil {
		return "", nil, err
	}
	args = []any{resource, token}
	if t.style == Dollar {
		args[0] = []byte(resource)
	}
	return t.advance, args, nil
}

// Advance stores the token for the resource and locks the resource's row until the
// transaction ends. It returns a *fencing.StaleError if the resource has seen a larger
// token. From then on the reads and writes of the transaction are safe from former
// holders. The rules for resource names are those for lease names: see
// leasing.ValidateName.
func (t *Table) Advance(ctx context.Context, tx Tx, resource string, token int64) error {
	query, args, err := t.AdvanceSQL(resource, token)
	if err != nil {
		return err
	}
	var seen int64
	if err := tx.QueryRowContext(ctx, query, args...).Scan(&seen); err != nil {
		return fmt.Errorf("sqlfence: check of %q: %w", resource, cause.Join(ctx, err))
	}
	return fencing.Check(resource, token, seen)
}

// Exec runs a statement in the transaction if the token is not stale. Roll back
// if it returns an error.
func (t *Table) Exec(ctx context.Context, tx Tx, resource string, token int64, query string, args ...any) (sql.Result, error) {
	if err := t.Advance(ctx, tx, resource, token); err != nil {
		return nil, err
	}
	return tx.ExecContext(ctx, query, args...)
}

// Do runs fn in a transaction of its own, after Advance, and commits. If fn or
// Advance fails, or fn panics, it rolls back. If the commit fails, its outcome
// may be unknown.
//
// The transaction begins with the database's defaults, and ends with ctx: pass the lease's context,
// so that work on a lost lease is rolled back.
func (t *Table) Do(ctx context.Context, db *sql.DB, resource string, token int64, fn func(ctx context.Context, tx *sql.Tx) error) (err error) {
	if _, _, err := t.AdvanceSQL(resource, token); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("sqlfence: begin for %q: %w", resource, cause.Join(ctx, err))
	}
	defer func() { // after a commit Rollback does nothing
		if rolled := tx.Rollback(); rolled != nil && !errors.Is(rolled, sql.ErrTxDone) {
			err = errors.Join(err, fmt.Errorf("sqlfence: rollback for %q: %w", resource, rolled))
		}
	}()
	if err := t.Advance(ctx, tx, resource, token); err != nil {
		return err
	}
	if err := fn(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("sqlfence: commit for %q: %w", resource, cause.Join(ctx, err))
	}
	return nil
}
