package kuberneteslease

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providertest"
)

func TestConformance(t *testing.T) {
	o := Options{URL: serverURL(t)}
	remove := func(t testing.TB, p abstractions.Provider, name string) { // as if an operator deleted the object
		s := p.(*Provider).driver.store
		item, err := s.Get(t.Context(), encode(name))
		require.NoError(t, err)
		require.NoError(t, s.Delete(t.Context(), item))
	}
	providertest.Run(t, providertest.Harness{
		New:         func(t testing.TB) abstractions.Provider { return open(t, o) },
		Peer:        func(t testing.TB, _ abstractions.Provider) abstractions.Provider { return open(t, o) },
		Forget:      remove,
		Records:     func(p abstractions.Provider) *cas.Records { return &p.(*Provider).driver.Records },
		Remove:      remove,
		Unreachable: func(t testing.TB) abstractions.Provider { return silentProvider(t) },
		HTTP: func(t testing.TB, _ abstractions.Provider) providertest.Route {
			o := o
			require.NoError(t, o.complete())
			client, err := o.client() // the transport trusts the server
			require.NoError(t, err)
			t.Cleanup(client.Close)
			return providertest.Route{URL: o.Address, Transport: client.Transport(), Open: func(t testing.TB, url string) abstractions.Provider {
				o.Address, o.CAFile = url, ""
				return open(t, o)
			}}
		},
	})
}
