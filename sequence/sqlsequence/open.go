package sqlsequence

import (
	"cmp"
	"context"
	"database/sql"
	"regexp"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"github.com/distributedleasing/leasing/providers/sql/postgres/pgkit"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options configure a store. The zero value is ready to use.
type Options struct {
	// Schema is PostgreSQL's schema. Default "leasing", as in package postgreslease. SQLite has no schemas.
	Schema string
	// Prefix is the beginning of the names of the tables. Default "sequence_".
	Prefix string
	// Audit keeps an event for each change to a number, written by triggers in the same transaction, until the
	// number is forgotten: see Store.Events. Migrate creates its table and triggers. The audit costs a row for
	// each change.
	Audit bool
	// NoWakeups turns LISTEN and NOTIFY off, for example behind a pooler that pools by transaction.
	// Waiters then poll.
	NoWakeups bool
}

var identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

// newStore makes a store. connect opens a listening connection; it is nil if the driver can't
// listen.
func newStore[Tx any](on backend[Tx], d dialect, o Options, connect func(context.Context) (*pgx.Conn, error)) (*Store[Tx], error) {
	o.Prefix = cmp.Or(o.Prefix, "sequence_")
	if d.lite && o.Schema != "" {
		return nil, &leasing.InvalidError{Field: "Options.Schema", Value: o.Schema, Want: `"": SQLite has no schemas`}
	}
	if !d.lite {
		o.Schema = cmp.Or(o.Schema, "leasing")
	}
	if !d.lite && !identifier.MatchString(o.Schema) {
		return nil, &leasing.InvalidError{Field: "Options.Schema", Value: o.Schema, Want: "1 to 40 characters a-z, 0-9 and _, beginning with no digit"}
	}
	if !identifier.MatchString(o.Prefix) {
		return nil, &leasing.InvalidError{Field: "Options.Prefix", Value: o.Prefix, Want: "1 to 40 characters a-z, 0-9 and _, beginning with no digit"}
	}
	s := &Store[Tx]{on: on, sql: newStatements(d, o.Schema, o.Prefix), schema: o.Schema, prefix: o.Prefix, failures: failures{d.lite}, audit: o.Audit}
	if d.leases != "" {
		s.leases = batch.New(s.issueAll, batch.UntilItLeaves)
	}
	if !d.lite && !o.NoWakeups {
		s.wake = newWakeups(&s.hub, on, o.Schema, o.Prefix, connect)
	}
	return s, nil
}

// OpenPostgres makes a store on PostgreSQL over the application's database. It sends no request.
// Close it before the database.
func OpenPostgres(db *sql.DB, options Options) (*Store[*sql.Tx], error) {
	if db == nil {
		return nil, &leasing.InvalidError{Field: "db", Value: nil, Want: "a *sql.DB"}
	}
	return newStore[*sql.Tx](newSQLDatabase(db), postgresDialect, options, pgkit.ListenLike(db))
}

// OpenPool makes a store on PostgreSQL over the application's pool. It sends no request. Close it
// before the pool.
func OpenPool(pool *pgxpool.Pool, options Options) (*Store[pgx.Tx], error) {
	if pool == nil {
		return nil, &leasing.InvalidError{Field: "pool", Value: nil, Want: "a *pgxpool.Pool"}
	}
	return newStore[pgx.Tx](newPgxDatabase(pool), postgresDialect, options, pgkit.ListenAs(pool))
}

// OpenSQLite makes a store on an SQLite file over the application's database, with any driver
// that waits for locks (a busy timeout). WAL mode lets readers and writers work side by side. OpenSQLite sends no
// request.
func OpenSQLite(db *sql.DB, options Options) (*Store[*sql.Tx], error) {
	if db == nil {
		return nil, &leasing.InvalidError{Field: "db", Value: nil, Want: "a *sql.DB"}
	}
	return newStore[*sql.Tx](&sqliteDatabase{db: db, turn: make(chan struct{}, 1)}, sqliteDialect, options, nil)
}

// Close stops listening and notifying, and closes the prepared statements. After Close no number can be leased.
// The database stays open.
func (s *Store[Tx]) Close() error {
	if s.leases != nil {
		s.leases.Close()
	}
	if p, ok := s.on.(preparing); ok {
		p.close()
	}
	if s.wake != nil {
		s.wake.close()
	}
	return nil
}
