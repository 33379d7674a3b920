package sqlserverlease

import (
	"context"
	sqldriver "database/sql/driver"

	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

// Provider is a leasing provider over tables of SQL Server. Besides the requests about leases it has Migrate, Statements, Sweep and
// WriteHistory: see [sqllease.Provider].
type Provider = sqllease.Provider

// Open makes a provider. Unless Options.Create is set it sends no request, so an unreachable
// database or a missing table is reported at the first use. Invalid options are reported as
// leasing.ErrInvalid, and no part of a URL is shown.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	connector, err := options.complete()
	if err != nil {
		return nil, err
	}
	return open(ctx, options, connector)
}

// open makes a provider over connections of its own, or over Options.DB if connector is nil.
func open(ctx context.Context, options Options, connector sqldriver.Connector) (*Provider, error) {
	db, connections := databaseOf(options, connector)
	b := &backend{db: db}
	b.ServerStore = dialect.NewServerStore(dialect.NewStore(options.common(), tablesOf(options.Schema, options.Table)), b, dialect.LimitedTo(connections, db), maxItems)
	return sqllease.New(ctx, sqllease.Config{
		Backend: b, Store: b.Store, Capabilities: dialect.Capabilities("sqlserver", "the database server's clock", db.own), Options: options.common(),
	})
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	return Open(ctx, Options{URL: rawURL})
}

// Opener returns an opener for URLs that begin with sqlserver://: see package open.
func Opener() abstractions.Opener { return abstractions.NewOpener(OpenURL, urlSchemes...) }
