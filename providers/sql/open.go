package sqllease

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"golang.org/x/sync/semaphore"
)

// Open makes a provider. Unless Options.Create is set it sends no request, so
// an unreachable database, or missing tables, show at the first use. Invalid
// options are reported as leasing.ErrInvalid.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	field, where, err := options.complete()
	if err != nil {
		return nil, err
	}
	p, err := open(options, field, where)
	if err != nil || !options.Create {
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

// Opener opens this provider by URLs that begin with postgres://, postgresql:// or sqlite://: see package open.
func Opener() abstractions.Opener { return abstractions.NewOpener(OpenURL, urlSchemes...) }

var urlSchemes = []string{"postgres", "postgresql", "sqlite"}

func open(o Options, field, where string) (*Provider, error) {
	d := &driver{store: &store{
		record:    recording{changes: o.History, renewals: o.HistoryRenewals, retention: finite(o.HistoryRetention)},
		retention: finite(o.Retention), random: rand.IntN,
	}}
	switch o.Dialect {
	case MySQL:
		d.caps = capabilities(MySQL, "the database server's clock", true)
		d.tables = mysqlTables(o.Table)
		m := &mysql{db: openMySQL(o.MySQL)}
		m.limited = limitedTo(o.MySQL.MaxConns, m.db)
		m.rowStore = rowStore{store: d.store, in: m, clock: func() providerkit.HostTime { return providerkit.HostTime{} }, width: mysqlColumns}
		m.wakeups = newWakeups(m, func(context.Context, *wakeups) (providerkit.Connection, error) { return nil, errPolls })
		d.backend = m
	case SQLite:
		db, err := sqliteFrom(o, field, where)
		if err != nil {
			return nil, err
		}
		d.caps = capabilities(SQLite, "the host's clock", false)
		d.tables = sqliteTables(o.Table)
		s := &sqlite{statements: viaSQL{db}, db: db}
		s.rowStore = rowStore{store: d.store, in: s, clock: providerkit.HostClock, width: sqliteColumns}
		s.wakeups = newWakeups(s, s.listen)
		s.changes = batch.New(s.applyMany, batch.UntilItLeaves)
		d.backend = s
	default:
		db, err := postgresFrom(o, field, where)
		if err != nil {
			return nil, err
		}
		heeds := o.DB == nil && o.Pool == nil // whose hooks may not
		d.caps = capabilities(Postgres, "the PostgreSQL server's clock", heeds)
		d.tables = postgresTables(o, db.size != 1)
		p := &postgres{store: d.store, db: db, limited: limitedTo(db.size, db)}
		if o.NoWakeups {
			p.db.listen = nil
		}
		p.wakeups = newWakeups(p, p.db.wake)
		p.acquires, p.releases = batch.New(p.acquireMany, batch.UntilItLeaves), batch.New(p.releaseMany, batch.UntilItLeaves)
		d.backend = p
	}
	able := providerkit.Driver(d)
	if o.History {
		able = historian{d}
	}
	return &Provider{shell: providerkit.New(able, providerkit.Config{Timeout: o.Timeout}), driver: d}, nil
}

// finite turns Infinite into 0, the word for it of what follows.
func finite(d time.Duration) time.Duration {
	if d == abstractions.Infinite {
		return 0
	}
	return d
}

func postgresFrom(o Options, field, where string) (*pgDatabase, error) {
	switch field {
	case "Pool":
		return overPool(o.Pool), nil
	case "DB":
		return overDB(o.DB), nil
	}
	db, err := openPgx(where)
	if err != nil { // its text and fields may quote the password
		return nil, &abstractions.InvalidError{Field: "Options." + field, Value: providerkit.NotShown, Want: "what pgxpool.ParseConfig understands, no connections in advance, and one password for all hosts"}
	}
	return db, nil
}

func sqliteFrom(o Options, field, where string) (*sqliteDatabase, error) {
	if field == "DB" {
		return &sqliteDatabase{DB: o.DB, oneHost: o.OneHost, lock: semaphore.NewWeighted(1)}, nil
	}
	if where == "" || strings.ContainsRune(where, 0) || strings.Contains(where, ":memory:") || strings.HasPrefix(where, "file:") {
		return nil, &abstractions.InvalidError{Field: "Options." + field, Value: where, Want: "the path of a file; for leases in memory use memlease"}
	}
	path, err := filepath.Abs(where)
	if err != nil {
		return nil, &abstractions.InvalidError{Field: "Options." + field, Value: where, Want: "a path: " + err.Error()}
	}
	return openSqlite(filepath.ToSlash(path), o.Synchronous, o.OneHost)
}
