package etcdlease

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest"
)

// named is the URL of a member.
func named(t testing.TB) string {
	t.Helper()
	url := os.Getenv("LEASING_TEST_ETCD")
	require.NotEmpty(t, url, "run make test, or set LEASING_TEST_ETCD to the URL of a member: see CONTRIBUTING.md")
	return url
}

func open(t testing.TB, options Options) *Provider {
	t.Helper()
	p, err := Open(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func TestConformance(t *testing.T) {
	o := Options{URL: named(t), Prefix: "conformance/" + abstractions.NewID()}
	providertest.Run(t, providertest.Harness{
		New:  func(t testing.TB) abstractions.Provider { return open(t, o) },
		Peer: func(t testing.TB, _ abstractions.Provider) abstractions.Provider { return open(t, o) },
		Forget: func(t testing.TB, p abstractions.Provider, name string) {
			s := p.(*Provider).driver.store
			item, err := s.Get(t.Context(), s.key(name))
			require.NoError(t, err)
			require.NoError(t, s.Delete(t.Context(), item))
		},
		Lose: func(t testing.TB, p abstractions.Provider, name string) { // the record; the claim stands
			s := p.(*Provider).driver.store
			_, err := s.client.Delete(t.Context(), s.key(name))
			require.NoError(t, err)
		},
		Remove: func(t testing.TB, p abstractions.Provider, name string) {
			s := p.(*Provider).driver.store
			_, err := s.client.Delete(t.Context(), s.claimKey(s.key(name)))
			require.NoError(t, err)
		},
		Unreachable: func(t testing.TB) abstractions.Provider { return silent(t) },
	})
}

// silent is a provider whose member takes connections and says nothing.
func silent(t testing.TB) *Provider {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	o := Options{Endpoints: []string{listener.Addr().String()}}
	require.NoError(t, o.complete())
	p := newProvider(o)
	require.NoError(t, p.driver.connect())
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}
