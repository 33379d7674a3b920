package sqlitelease

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"github.com/distributedleasing/leasing/abstractions/providerkit/hostclock"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"golang.org/x/sync/semaphore"
)

// Provider is a leasing provider over tables of an SQLite file. In addition to the requests about leases it has Migrate,
// Statements, Sweep and WriteHistory: see [sqllease.Provider].
type Provider = sqllease.Provider

// Open makes a provider. Unless Options.Create is set it does not touch the file, so a missing file
// or missing tables are reported at the first use. Invalid options are reported as
// leasing.ErrInvalid.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path, err := options.complete()
	if err != nil {
		return nil, err
	}
	db := &sqliteDatabase{DB: options.DB, oneHost: options.OneHost, lock: semaphore.NewWeighted(1)}
	if options.DB == nil {
		if db, err = openSqlite(path, options.Synchronous, options.OneHost); err != nil {
			return nil, err
		}
	}
	s := &sqlite{Statements: dialect.ViaSQL{Querier: db}, pipes: pipes{db}}
	s.RowStore = dialect.NewRowStore(dialect.NewStore(options.common(), sqliteTables(options.Table)), s, hostclock.Now, sqliteColumns, s.listen)
	s.changes = batch.New(s.applyMany, batch.UntilItLeaves)
	return sqllease.New(ctx, sqllease.Config{
		Backend: s, Store: s.Store, Capabilities: dialect.Capabilities("sqlite", "the host's clock", false), Options: options.common(),
	})
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	return Open(ctx, Options{URL: rawURL})
}

// Opener returns an opener for URLs that begin with sqlite://: see package open.
func Opener() abstractions.Opener { return abstractions.NewOpener(OpenURL, urlSchemes...) }
