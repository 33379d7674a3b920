package etcdlease

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providertest"
)

func TestConformance(t *testing.T) {
	o := Options{URL: serverURL(t), Prefix: "conformance/" + abstractions.NewID()}
	providertest.Run(t, providertest.Harness{
		New:  func(t testing.TB) abstractions.Provider { return open(t, o) },
		Peer: func(t testing.TB, _ abstractions.Provider) abstractions.Provider { return open(t, o) },
		Forget: func(t testing.TB, p abstractions.Provider, name string) {
			s := p.(*Provider).driver.store
			for { // names share floors, so another check may forget a name at the same time
				item, err := s.Get(t.Context(), s.key(name))
				require.NoError(t, err)
				if err = s.Delete(t.Context(), item); !errors.Is(err, cas.ErrConflict) {
					require.NoError(t, err)
					return
				}
			}
		},
		Lose: func(t testing.TB, p abstractions.Provider, name string) { // the record is lost, but not the claim's key
			s := p.(*Provider).driver.store
			_, err := s.client.Delete(t.Context(), s.key(name))
			require.NoError(t, err)
		},
		Remove: func(t testing.TB, p abstractions.Provider, name string) {
			s := p.(*Provider).driver.store
			_, err := s.client.Delete(t.Context(), s.claimKey(s.key(name)))
			require.NoError(t, err)
		},
		Records:     func(p abstractions.Provider) *cas.Records { return &p.(*Provider).driver.Records },
		Unreachable: func(t testing.TB) abstractions.Provider { return silentProvider(t) },
	})
}
