package mysqllease

import (
	"context"
	"math"

	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

// Provider is a leasing provider over tables of MariaDB or MySQL. In addition to the requests about leases it has Migrate,
// Statements, Sweep and WriteHistory: see [sqllease.Provider].
type Provider = sqllease.Provider

// Open makes a provider. Unless Options.Create is set it sends no request, so an unreachable
// database or missing tables are reported at the first use. Invalid options are reported as
// leasing.ErrInvalid, without any part of a URL.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	connector, err := options.complete()
	if err != nil {
		return nil, err
	}
	m := &backend{db: openDatabase(connector, options.MaxConns)}
	m.ServerStore = dialect.NewServerStore(dialect.NewStore(options.common(), tablesOf(options.Table)), m, dialect.LimitedTo(options.MaxConns, m.db), math.MaxInt)
	return sqllease.New(ctx, sqllease.Config{
		Backend: m, Store: m.Store, Capabilities: dialect.Capabilities("mysql", "the database server's clock", true), Options: options.common(),
	})
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	return Open(ctx, Options{URL: rawURL})
}

// Opener returns an opener for URLs that begin with mysql:// or mariadb://: see package open.
func Opener() abstractions.Opener { return abstractions.NewOpener(OpenURL, urlSchemes...) }
