package place

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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

// Place is one run's. Worker processes get it as JSON, through their
// environment: a URL's password is not on any command line.
type Place struct {
	URL   string // sqlite:///path, postgres://..., redis://... or rediss://...
	Scope string // letters, digits and underscores
}

// Provider opens the leases of the run.
func (p Place) Provider(ctx context.Context) (leasing.Provider, error) {
	switch scheme(p.URL) {
	case "redis", "rediss":
		return redislease.Open(ctx, redislease.Options{URL: p.URL, Prefix: p.Scope})
	case "postgres", "postgresql":
		return sqllease.Open(ctx, sqllease.Options{URL: p.URL, Schema: p.Scope})
	case "sqlite":
		return sqllease.Open(ctx, sqllease.Options{URL: p.URL, Table: p.Table("lease")})
	}
	return nil, fmt.Errorf("the samples keep their data beside their leases, and know no such place as %q; there are redis://, rediss://, postgres:// and sqlite://", scheme(p.URL))
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

// OnRedis says that there is no database/sql here.
func (p Place) OnRedis() bool { return strings.HasPrefix(scheme(p.URL), "redis") }

// String is the kind of backend. The URL may hold a password.
func (p Place) String() string {
	switch {
	case p.OnRedis():
		return "Redis"
	case p.onPostgres():
		return "PostgreSQL"
	}
	return "an SQLite file"
}

func (p Place) onPostgres() bool { return strings.HasPrefix(scheme(p.URL), "postgres") }

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

// SetUp makes the place of a run of the named sample, and returns what removes
// it. Without a URL it is an SQLite file in a temporary folder.
func SetUp(ctx context.Context, sample, rawURL string) (Place, func() error, error) {
	p := Place{URL: rawURL, Scope: "sample_" + sample + "_" + strings.ToLower(rand.Text()[:8])}
	remove := func() error { return p.clear(context.WithoutCancel(ctx)) }
	if rawURL == "" {
		folder, err := os.MkdirTemp("", "leasing-"+sample+"-")
		if err != nil {
			return p, nil, err
		}
		file := url.URL{Path: filepath.ToSlash(filepath.Join(folder, "sample.db"))}
		p.URL = "sqlite://" + file.EscapedPath()
		remove = func() error { return os.RemoveAll(folder) }
	}
	provider, err := p.Provider(ctx)
	if err != nil {
		if rawURL != "" {
			return p, nil, err // it may be no place at all
		}
		return p, nil, errors.Join(err, remove())
	}
	if err := migrate(ctx, provider); err != nil {
		return p, nil, errors.Join(err, remove())
	}
	return p, remove, nil
}

// migrate makes the tables of the leases. Redis needs nothing of the kind.
func migrate(ctx context.Context, provider leasing.Provider) (err error) {
	if tables, ok := provider.(*sqllease.Provider); ok {
		err = tables.Migrate(ctx)
	}
	return errors.Join(err, provider.Close())
}
