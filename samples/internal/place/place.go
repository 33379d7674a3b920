package place

import (
	"context"
	"crypto/rand"
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
	Data   string // URL of the database: sqlite:///path or postgres://...
	Scope  string // letters, digits and underscores
}

// SetUp makes the place of a run of the named sample, and returns what removes
// it. Without a URL it is a temporary SQLite file.
func SetUp(ctx context.Context, sample, rawURL string) (Place, func() error, error) {
	p := Place{Leases: rawURL, Data: rawURL, Scope: "sample_" + sample + "_" + strings.ToLower(rand.Text()[:8])}
	remove := func() error { return nil }
	if !p.sql() {
		folder, err := os.MkdirTemp("", "leasing-"+sample+"-")
		if err != nil {
			return p, nil, err
		}
		remove = func() error { return os.RemoveAll(folder) }
		file := url.URL{Path: filepath.ToSlash(filepath.Join(folder, "sample.db"))}
		p.Data = "sqlite://" + file.EscapedPath()
		if rawURL == "" {
			p.Leases = p.Data
		}
	}
	provider, err := p.Provider(ctx)
	if err != nil {
		return p, nil, errors.Join(err, remove())
	}
	if p.Data == rawURL {
		remove = func() error { return p.drop(context.WithoutCancel(ctx)) }
	}
	switch provider := provider.(type) {
	case *sqllease.Provider:
		err = provider.Migrate(ctx)
	case *redislease.Provider:
		if provider.Capabilities().Provider == "redlock" { // whose servers the run's prefix is new to
			err = provider.Bootstrap(ctx)
		}
	}
	if err = errors.Join(err, provider.Close()); err != nil {
		return p, nil, errors.Join(err, remove())
	}
	return p, remove, nil
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
		return sqllease.Open(ctx, sqllease.Options{URL: p.Leases, Table: p.Table("lease")})
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

// sql says that leases and data share a database.
func (p Place) sql() bool {
	return strings.HasPrefix(p.Data, "sqlite://") || p.postgres()
}

func (p Place) postgres() bool { return strings.HasPrefix(scheme(p.Data), "postgres") }

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
