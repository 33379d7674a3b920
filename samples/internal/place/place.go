package place

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
)

// Place is one run's. Worker processes get it as JSON in their environment, which
// other users can't read: a URL may hold a password.
type Place struct {
	Leases string // URL of the provider
	Driver string // of the database: "pgx" or "sqlite3"
	Data   string // its data source name
	Scope  string // letters, digits and underscores
}

// SetUp makes the place of a run of the named sample, and returns what removes
// it. Without a URL the leases are in a temporary SQLite file.
func SetUp(ctx context.Context, sample, rawURL string) (Place, func() error, error) {
	folder, err := os.MkdirTemp("", "leasing-"+sample+"-")
	if err != nil {
		return Place{}, nil, err
	}
	p := Place{
		Leases: rawURL, Driver: "sqlite3", Data: fileName(filepath.Join(folder, "data.db")),
		Scope: "sample_" + sample + "_" + strings.ToLower(rand.Text()[:8]),
	}
	if rawURL == "" {
		p.Leases = "sqlite://" + (&url.URL{Path: filepath.ToSlash(filepath.Join(folder, "leases.db"))}).EscapedPath()
	}
	remove := func() error { return os.RemoveAll(folder) }
	if err := p.prepare(ctx); err != nil {
		return p, nil, errors.Join(err, remove())
	}
	if strings.HasPrefix(scheme(rawURL), "postgres") {
		p.Driver, p.Data = "pgx", withParameter(rawURL, "search_path", p.Scope)
	}
	return p, func() error { return errors.Join(p.drop(context.WithoutCancel(ctx), rawURL), remove()) }, nil
}

// prepare makes what the leases need.
func (p Place) prepare(ctx context.Context) error {
	provider, err := p.Provider(ctx)
	if err != nil {
		return err
	}
	switch provider := provider.(type) {
	case *sqllease.Provider:
		err = provider.Migrate(ctx)
	case *redislease.Provider:
		if provider.Capabilities().Provider == "redlock" { // whose servers the run's prefix is new to
			err = provider.Bootstrap(ctx)
		}
	}
	return errors.Join(err, provider.Close())
}

// drop removes what the run has left on a server, or in a file of the user's. Redis
// forgets by itself.
func (p Place) drop(ctx context.Context, rawURL string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	switch {
	case p.Driver == "pgx":
		return withDB(p.Driver, p.Data, func(db *sql.DB) error {
			_, err := db.ExecContext(ctx, "DROP SCHEMA IF EXISTS "+p.Scope+" CASCADE")
			return err
		})
	case scheme(rawURL) == "sqlite":
		path, _, _ := strings.Cut(strings.TrimPrefix(rawURL, "sqlite://"), "?")
		path, err := url.PathUnescape(path)
		if err != nil {
			return err
		}
		return withDB("sqlite3", fileName(path), func(db *sql.DB) error { return p.dropTables(ctx, db) })
	}
	return nil
}

func (p Place) dropTables(ctx context.Context, db *sql.DB) error {
	var tables []string
	err := Each(ctx, db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND instr(name, '"+p.Scope+"') = 1", func(row *sql.Rows) error {
		var name string
		err := row.Scan(&name)
		tables = append(tables, name)
		return err
	})
	for _, table := range tables {
		_, dropped := db.ExecContext(ctx, `DROP TABLE "`+table+`"`)
		err = errors.Join(err, dropped)
	}
	return err
}

// Provider opens the leases of the run. Redis forgets their names a minute after
// their end.
func (p Place) Provider(ctx context.Context) (leasing.Provider, error) {
	switch scheme(p.Leases) {
	case "redis", "rediss":
		return redislease.Open(ctx, redislease.Options{URL: p.Leases, Prefix: p.Scope, Retention: time.Minute})
	case "postgres", "postgresql":
		return sqllease.Open(ctx, sqllease.Options{URL: p.Leases, Schema: p.Scope})
	case "sqlite":
		return sqllease.Open(ctx, sqllease.Options{URL: p.Leases, Table: p.Scope + "_lease"})
	}
	return Open(ctx, p.Leases)
}

// Manager opens the leases and makes a manager for them, and returns what
// closes both.
func (p Place) Manager(ctx context.Context, options leasing.Options) (leasing.Manager, func() error, error) {
	provider, err := p.Provider(ctx)
	if err != nil {
		return nil, nil, err
	}
	manager, err := leasing.NewManager(provider, options)
	if err != nil {
		return nil, nil, errors.Join(err, provider.Close())
	}
	return manager, func() error {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return errors.Join(manager.Close(closing), provider.Close())
	}, nil
}

// Lease returns the name of a lease of this run. Backends without a scope of the
// run's own keep names for a while.
func (p Place) Lease(name string) string { return name + "/" + p.Scope }

// isScheme is a URL's scheme (RFC 3986, section 3.1).
var isScheme = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*$`)

// scheme returns what stands before ://.
func scheme(rawURL string) string {
	scheme, _, found := strings.Cut(rawURL, "://")
	if !found || !isScheme.MatchString(scheme) {
		return "" // not what may be a password
	}
	return scheme
}

// withParameter adds a parameter to a URL that a provider has accepted.
func withParameter(rawURL, key, value string) string {
	separator := "?"
	if strings.Contains(rawURL, "?") {
		separator = "&"
	}
	return rawURL + separator + key + "=" + value
}
