package dialecttest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/stretchr/testify/require"
)

// Harness returns the conformance suite's harness for a database. Each provider has its own tables, and is opened with these query
// parameters, each a name and a value.
func (d Database) Harness(unreachable func(testing.TB) abstractions.Provider, parameters ...string) providertest.Harness {
	var tables sync.Map // the function that opens another client, by provider
	return providertest.Harness{
		New: func(t testing.TB) abstractions.Provider {
			open := d.New(t)
			p := open(parameters...)
			tables.Store(p, open)
			return p
		},
		Peer: func(t testing.TB, p abstractions.Provider) abstractions.Provider {
			open, _ := tables.Load(p)
			return open.(func(...string) *sqllease.Provider)(parameters...)
		},
		Forget: func(t testing.TB, p abstractions.Provider, name string) {
			_, _, err := BackendOf(p.(*sqllease.Provider)).Sweep(Bounded(t), new(string), 1000, time.Microsecond)
			require.NoError(t, err)
		},
		Ahead: func(t testing.TB, p abstractions.Provider, name string) {
			Execute(Bounded(t), t, p.(*sqllease.Provider), "UPDATE {lease} SET token = token + 3600000000, version = version + 1 WHERE name = '"+name+"'")
		},
		Remove: func(t testing.TB, p abstractions.Provider, name string) {
			Execute(Bounded(t), t, p.(*sqllease.Provider), "DELETE FROM {lease} WHERE name = '"+name+"'")
		},
		Remembers:    64,
		KnowsTheGone: true,
		Unreachable:  unreachable,
	}
}

// Explained returns the error of a provider's call when the database fails with err.
func Explained(t *testing.T, b dialect.Backend, err error) error {
	p, failed := sqllease.New(t.Context(), sqllease.Config{
		Backend: failing{b, err}, Store: new(dialect.Store), Capabilities: dialect.Capabilities("test", "", false),
		Options: dialect.Options{Timeout: time.Minute},
	})
	require.NoError(t, failed)
	return p.Ping(t.Context())
}

// failing is a backend whose database fails.
type failing struct {
	dialect.Backend
	err error
}

func (f failing) Version(context.Context) (int, error) { return 0, f.err }
