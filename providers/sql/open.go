package sqllease

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Open makes a provider. Unless Options.Migrate is set it makes no request:
// a database that can't be reached, or whose tables are missing, shows at the
// first use. Options that can't work are reported as leasing.ErrInvalid.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	field, dialect, err := options.source()
	if err != nil {
		return nil, err
	}
	where := options.DSN
	if field == "URL" {
		if options, where, err = options.withURL(dialect); err != nil {
			return nil, err
		}
	}
	if options, err = options.complete(dialect); err != nil {
		return nil, err
	}
	p, err := open(options, dialect, field, where)
	if err != nil || !options.Migrate {
		return p, err
	}
	if err := p.Migrate(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	return Open(ctx, Options{URL: rawURL})
}

func open(o Options, dialect Dialect, field, where string) (*Provider, error) {
	naming := naming{schema: o.Schema, table: o.Table}
	record := recording{changes: o.History, renewals: o.HistoryRenewals}
	if dialect == SQLite {
		db, err := sqliteFrom(o, field, where)
		if err != nil {
			return nil, err
		}
		return newProvider(o, &sqlite{db: db, sql: newSqliteSQL(o.Table), naming: naming, record: record, clock: hostClock}, nil), nil
	}
	db, err := postgresFrom(o, field, where)
	if err != nil {
		return nil, err
	}
	var wakeups *wakeups
	if !o.NoWakeups {
		wakeups = newWakeups(naming, db.listen())
	}
	return newProvider(o, &postgres{
		db: db, sql: newPostgresSQL(o.Schema, o.Table), naming: naming, record: record, wake: wakeups, lane: newLane(db.size()),
	}, wakeups), nil
}

func newProvider(o Options, b backend, w *wakeups) *Provider {
	store := &Store{
		backend: b, capabilities: b.capabilities(), record: recording{changes: o.History, renewals: o.HistoryRenewals},
		timeout: o.Timeout, retention: finite(o.Retention), historyRetention: finite(o.HistoryRetention),
	}
	return &Provider{store: store, wakeups: w}
}

// finite turns Forever into 0, the store's word for it.
func finite(d time.Duration) time.Duration {
	if d == Forever {
		return 0
	}
	return d
}

func postgresFrom(o Options, field, where string) (pgDatabase, error) {
	switch field {
	case "Pool":
		return newPgxDatabase(o.Pool, false), nil
	case "DB":
		return newStdDatabase(o.DB), nil
	}
	db, err := openPgx(where)
	if err != nil { // its text and fields may quote the password
		return nil, &abstractions.InvalidError{Field: "Options." + field, Value: notShown, Want: "what pgconn.ParseConfig understands"}
	}
	return db, nil
}

func sqliteFrom(o Options, field, where string) (*sqliteDatabase, error) {
	if field == "DB" {
		return &sqliteDatabase{db: o.DB}, nil
	}
	if where == "" || strings.Contains(where, ":memory:") || strings.HasPrefix(where, "file:") {
		return nil, &abstractions.InvalidError{Field: "Options." + field, Value: where, Want: "the path of a file; for leases in memory use memlease"}
	}
	path, err := filepath.Abs(where)
	if err != nil {
		return nil, &abstractions.InvalidError{Field: "Options." + field, Value: where, Want: "a path: " + err.Error()}
	}
	return openSqlite(filepath.ToSlash(path), o.Synchronous)
}
