package etcdlease

import (
	"testing"

	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/stretchr/testify/require"
)

// serverURL returns the URL of a member.
func serverURL(t testing.TB) string {
	t.Helper()
	return servertest.Require(t, "LEASING_TEST_ETCD")
}

func open(t testing.TB, options Options) *Provider {
	t.Helper()
	p, err := Open(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// silentProvider returns a provider whose member accepts connections and never answers.
func silentProvider(t testing.TB) *Provider {
	o := Options{Endpoints: []string{faulttest.Silent(t)}}
	require.NoError(t, o.complete())
	p := newProvider(o)
	require.NoError(t, p.driver.connect())
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}
