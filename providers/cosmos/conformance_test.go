package cosmoslease

import (
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// In a bubble time passes for the account and its clients alike. Each check has an
// account of its own.
func TestConformanceFake(t *testing.T) {
	var beds sync.Map // by check
	bedOf := func(t testing.TB) *bed {
		if b, ok := beds.Load(t); ok {
			return b.(*bed)
		}
		b := newBed(t, cosmostest.Options{})
		beds.Store(t, b)
		return b
	}
	providertest.Run(t, providertest.Harness{
		Virtual: true,
		New:     func(t testing.TB) abstractions.Provider { return bedOf(t).process() },
		Peer:    func(t testing.TB, _ abstractions.Provider) abstractions.Provider { return bedOf(t).process() },
		Forget: func(t testing.TB, p abstractions.Provider, _ string) {
			time.Sleep(providerkit.DefaultRetention + 10*time.Second)
			n, err := p.(*Provider).Sweep(t.Context())
			require.NoError(t, err)
			require.Positive(t, n)
		},
		Remembers: providerkit.EndedMost,
		Unreachable: func(t testing.TB) abstractions.Provider {
			b := newBed(t, cosmostest.Options{})
			b.account.Before(func(cosmostest.Operation) cosmostest.Fault { return cosmostest.Fault{Delay: time.Hour} })
			return b.Provider
		},
	})
}
