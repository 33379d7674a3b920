package cosmoslease

import (
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// The suite runs in a bubble, where the account and its clients have the same clock. Each
// check has its own account.
func TestConformanceFake(t *testing.T) { conformFake(t, false) }

// The same suite passes if the service deletes idle documents.
func TestConformanceFakeExpiring(t *testing.T) {
	servertest.Long(t)
	conformFake(t, true)
}

func conformFake(t *testing.T, expire bool) {
	var beds sync.Map // by check
	bedOf := func(t testing.TB) *bed {
		if b, ok := beds.Load(t); ok {
			return b.(*bed)
		}
		b := newBed(t, cosmostest.Options{})
		b.account.SetTTL(testDatabase, testContainer, -1)
		beds.Store(t, b)
		return b
	}
	open := func(t testing.TB) abstractions.Provider {
		return bedOf(t).process(func(o *Options) { o.ExpireDocuments = expire })
	}
	providertest.Run(t, providertest.Harness{
		Virtual: true,
		New:     open,
		Peer:    func(t testing.TB, _ abstractions.Provider) abstractions.Provider { return open(t) },
		Forget: func(t testing.TB, p abstractions.Provider, _ string) {
			time.Sleep(providerkit.DefaultRetention + 10*time.Second)
			n, err := p.(*Provider).Sweep(t.Context())
			require.NoError(t, err)
			require.True(t, expire || n > 0)
		},
		Remembers: 64,
		Records:   func(p abstractions.Provider) *cas.Records { return &p.(*Provider).driver.Records },
		Unreachable: func(t testing.TB) abstractions.Provider {
			b := newBed(t, cosmostest.Options{})
			b.account.Before(func(cosmostest.Operation) cosmostest.Fault { return cosmostest.Fault{Delay: time.Hour} })
			return b.Provider
		},
	})
}
