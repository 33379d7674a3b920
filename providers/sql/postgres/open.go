package postgreslease

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

// Provider is a leasing provider over tables of PostgreSQL. In addition to the requests about leases it has Migrate, Statements,
// Sweep and WriteHistory: see [sqllease.Provider].
type Provider = sqllease.Provider

// Open makes a provider. Unless Options.Create is set it sends no request, so an unreachable
// database or missing tables are reported at the first use. Invalid options are reported as
// leasing.ErrInvalid.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	field, where, err := options.complete()
	if err != nil {
		return nil, err
	}
	db, err := databaseFrom(options, field, where)
	if err != nil {
		return nil, err
	}
	if options.NoWakeups {
		db.listen = nil
	}
	p := &postgres{
		Store:   dialect.NewStore(options.common(), postgresTables(options, db.size != 1)),
		db:      db,
		Limited: dialect.LimitedTo(db.size, db),
	}
	p.Wakeups = dialect.NewWakeups(p, db.wake)
	p.acquires, p.releases = batch.New(p.acquireMany, batch.UntilItLeaves), batch.New(p.releaseMany, batch.UntilItLeaves)
	obeys := options.DB == nil && options.Pool == nil // the application's hooks may ignore contexts
	return sqllease.New(ctx, sqllease.Config{
		Backend: p, Store: p.Store, Capabilities: dialect.Capabilities("postgres", "the PostgreSQL server's clock", obeys), Options: options.common(),
	})
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	return Open(ctx, Options{URL: rawURL})
}

// Opener returns an opener for URLs that begin with postgres:// or postgresql://: see package open.
func Opener() abstractions.Opener { return abstractions.NewOpener(OpenURL, urlSchemes...) }

func databaseFrom(o Options, field, where string) (*pgDatabase, error) {
	switch field {
	case "Pool":
		return poolDatabase(o.Pool), nil
	case "DB":
		return sqlDatabase(o.DB), nil
	}
	db, err := openPgx(where)
	if err != nil { // its text and fields may quote the password
		return nil, &abstractions.InvalidError{Field: "Options." + field, Value: providerkit.NotShown, Want: "a connection string that pgxpool takes, no connections in advance, and one password for all hosts"}
	}
	return db, nil
}
