package folderlease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providertest"
)

// client is a provider that tells its folder.
type client struct {
	*Provider
	folder string
}

func open(t testing.TB, folder string) client {
	p, err := Open(t.Context(), Options{Folder: folder, Create: true})
	require.NoError(t, err)
	return client{p, folder}
}

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Harness{
		New:  func(t testing.TB) abstractions.Provider { return open(t, t.TempDir()) },
		Peer: func(t testing.TB, p abstractions.Provider) abstractions.Provider { return open(t, p.(client).folder) },
		Forget: func(t testing.TB, p abstractions.Provider, _ string) {
			sweeper := open(t, p.(client).folder)
			sweeper.records.Retention = time.Millisecond
			forgotten, err := sweeper.Sweep(t.Context())
			for ; forgotten == 0 && err == nil; forgotten, err = sweeper.Sweep(t.Context()) {
			} // the retention may not have passed
			require.NoError(t, err)
		},
		Records:   func(p abstractions.Provider) *providerkit.Records { return p.(client).records },
		Remembers: 64,
	})
}
