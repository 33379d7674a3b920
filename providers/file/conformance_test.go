package filelease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providertest"
)

func open(t testing.TB, folder string) *Provider {
	p, err := Open(t.Context(), Options{Folder: folder, Create: true})
	require.NoError(t, err)
	return p
}

func pathOf(p abstractions.Provider) string { return p.(*Provider).records.Store.(*folder).path }

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Harness{
		New:  func(t testing.TB) abstractions.Provider { return open(t, t.TempDir()) },
		Peer: func(t testing.TB, p abstractions.Provider) abstractions.Provider { return open(t, pathOf(p)) },
		Forget: func(t testing.TB, p abstractions.Provider, _ string) {
			sweeper := open(t, pathOf(p))
			sweeper.records.Retention = time.Millisecond
			forgotten, err := sweeper.Sweep(t.Context())
			for ; forgotten == 0 && err == nil; forgotten, err = sweeper.Sweep(t.Context()) {
			} // the retention may not have passed
			require.NoError(t, err)
		},
		Records:   func(p abstractions.Provider) *cas.Records { return p.(*Provider).records },
		Remembers: 64,
	})
}
