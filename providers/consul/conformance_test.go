package consullease

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providertest"
)

func TestConformance(t *testing.T) {
	url := serverURL(t)
	providertest.Run(t, providertest.Harness{
		New:  func(t testing.TB) abstractions.Provider { return open(t, Options{URL: url}) },
		Peer: func(t testing.TB, _ abstractions.Provider) abstractions.Provider { return open(t, Options{URL: url}) },
		Forget: func(t testing.TB, p abstractions.Provider, name string) { // as if an operator had deleted the entry
			s := p.(*Provider).driver.store
			item, err := s.Get(t.Context(), s.naming.Encode(name))
			require.NoError(t, err)
			require.NoError(t, s.Delete(t.Context(), item))
		},
		Records:     func(p abstractions.Provider) *cas.Records { return &p.(*Provider).driver.Records },
		Unreachable: func(t testing.TB) abstractions.Provider { return silentProvider(t) },
		Watched:     true,
		HTTP: func(t testing.TB, _ abstractions.Provider) providertest.Route {
			o := Options{URL: url}
			require.NoError(t, o.complete())
			return providertest.Route{URL: o.Address, Open: func(t testing.TB, url string) abstractions.Provider {
				o.Address = url
				return open(t, o)
			}}
		},
	})
}
