package sqllease

import (
	"context"
	"errors"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

// Config is the configuration of a provider. It is for dialects.
type Config struct {
	Backend      dialect.Backend
	Store        *dialect.Store
	Capabilities abstractions.Capabilities
	Options      dialect.Options
}

// New makes a provider, and creates its tables if Options.Create is set. It is for dialects: applications call the Open of
// a dialect. If the tables can't be created, New closes the backend.
func New(ctx context.Context, c Config) (*Provider, error) {
	d := &driver{Store: c.Store, backend: c.Backend, caps: c.Capabilities}
	able := providerkit.Driver(d)
	if c.Options.History {
		able = historian{d}
	}
	p := &Provider{shell: providerkit.New(able, providerkit.Config{Timeout: c.Options.Timeout}), driver: d}
	if !c.Options.Create {
		return p, nil
	}
	if err := p.Migrate(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}
