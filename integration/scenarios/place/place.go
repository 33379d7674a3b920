package place

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/open"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
	consullease "github.com/distributedleasing/leasing/providers/consul"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	etcdlease "github.com/distributedleasing/leasing/providers/etcd"
	kuberneteslease "github.com/distributedleasing/leasing/providers/kubernetes"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	s3lease "github.com/distributedleasing/leasing/providers/s3"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	mysqllease "github.com/distributedleasing/leasing/providers/sql/mysql"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

// openers has an opener for each provider whose leases other processes can reach by a URL.
var openers = []abstractions.Opener{
	postgreslease.Opener(), sqlitelease.Opener(), mysqllease.Opener(), redislease.Opener(), bloblease.Opener(), cosmoslease.Opener(), s3lease.Opener(), etcdlease.Opener(), consullease.Opener(), kuberneteslease.Opener(),
}

// Open opens the provider of a URL.
func Open(ctx context.Context, rawURL string) (leasing.Provider, error) {
	return open.URL(ctx, rawURL, openers...)
}

// Place is the place of one run's leases and data.
type Place struct {
	Leases string // URL of the provider
	Driver string // of the database: "pgx" or "sqlite3"
	Data   string // its data source name
	Scope  string // letters, digits and underscores
}

// SetUp makes the place of a run of the named scenario, and returns a function that removes the
// place. Without a URL, or with the word sqlite, the leases are in a temporary SQLite file; if the
// URL names an SQLite file, they are in a temporary file beside that file. Leases on SQLite and
// PostgreSQL have a history.
func SetUp(ctx context.Context, scenario, rawURL string) (Place, func() error, error) {
	if rawURL == "sqlite" {
		rawURL = ""
	}
	address, query, _ := strings.Cut(rawURL, "?")
	file, onSQLite := strings.CutPrefix(address, "sqlite://")
	parent := "" // where temporary files are
	if onSQLite {
		path, err := url.PathUnescape(file)
		if err != nil {
			return Place{}, nil, err
		}
		parent = filepath.Dir(path)
	}
	folder, err := os.MkdirTemp(parent, "leasing-"+scenario+"-")
	if err != nil {
		return Place{}, nil, err
	}
	// A transaction acquires the file's write lock when it begins: a transaction that reads first could not get the
	// lock later if another transaction has written in between.
	data := url.URL{Scheme: "file", OmitHost: true, Path: filepath.Join(folder, "data.db"), RawQuery: "_txlock=immediate&_pragma=busy_timeout(10000)"}
	p := Place{Leases: rawURL, Driver: "sqlite3", Data: data.String(), Scope: "sample_" + scenario + "_" + strings.ToLower(rand.Text()[:8])}
	if onSQLite || rawURL == "" {
		p.Leases = "sqlite://" + (&url.URL{Path: filepath.ToSlash(filepath.Join(folder, "leases.db"))}).EscapedPath() + "?history=true&" + query
	}
	remove := func() error { return os.RemoveAll(folder) }
	switch open.Scheme(rawURL) {
	case "redis", "rediss": // the record of a name stays for a minute after its lease has ended
		p.Leases = withParameter(withParameter(rawURL, "prefix", p.Scope), "retention", "1m")
	case "postgres", "postgresql":
		p.Leases = withParameter(withParameter(rawURL, "schema", p.Scope), "history", "true")
		p.Driver, p.Data = "pgx", withParameter(rawURL, "search_path", p.Scope)
		remove = func() error {
			return errors.Join(os.RemoveAll(folder), p.dropSchema(context.WithoutCancel(ctx)))
		}
	}
	if err := p.prepare(ctx); err != nil {
		return p, nil, errors.Join(err, remove())
	}
	return p, remove, nil
}

// prepare creates the schema or the other objects that the leases need.
func (p Place) prepare(ctx context.Context) error {
	provider, err := Open(ctx, p.Leases)
	if err != nil {
		return err
	}
	switch provider := provider.(type) {
	case *sqllease.Provider:
		err = provider.Migrate(ctx)
	case *redislease.Provider:
		if provider.Capabilities().Provider == "redlock" { // the run's prefix is new to its servers
			err = provider.Bootstrap(ctx)
		}
	}
	return errors.Join(err, provider.Close())
}

func (p Place) dropSchema(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	data, err := p.Open()
	if err != nil {
		return err
	}
	_, err = data.ExecContext(ctx, "DROP SCHEMA IF EXISTS "+p.Scope+" CASCADE")
	return errors.Join(err, data.Close())
}

// Connect opens the leases and the data, and makes a manager for the leases. It also returns
// a function that closes the manager, the provider and the data.
func (p Place) Connect(ctx context.Context, options leasing.Options) (*leasing.Manager, *Data, func() error, error) {
	data, err := p.Open()
	if err != nil {
		return nil, nil, nil, err
	}
	provider, err := Open(ctx, p.Leases)
	if err != nil {
		return nil, nil, nil, errors.Join(err, data.Close())
	}
	manager, err := leasing.NewManager(provider, options)
	if err != nil {
		return nil, nil, nil, errors.Join(err, provider.Close(), data.Close())
	}
	return manager, data, func() error {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return errors.Join(manager.Close(closing), provider.Close(), data.Close())
	}, nil
}

// Lease returns the name of a lease of this run. The name includes the scope, because a backend on which the run has no prefix or
// schema of its own keeps the names of earlier runs for a while.
func (p Place) Lease(name string) string { return name + "/" + p.Scope }

// withParameter adds a parameter to a URL that a provider has accepted.
func withParameter(rawURL, key, value string) string {
	separator := "?"
	if strings.Contains(rawURL, "?") {
		separator = "&"
	}
	return rawURL + separator + key + "=" + value
}
