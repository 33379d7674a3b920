package filelease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	filelease "github.com/distributedleasing/leasing/providers/file"
)

// client is a provider that tells its folder.
type client struct {
	*filelease.Provider
	folder string
}

func open(t testing.TB, folder string, retention time.Duration) client {
	p, err := filelease.Open(t.Context(), filelease.Options{Folder: folder, Create: true, Retention: retention})
	require.NoError(t, err)
	return client{p, folder}
}

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Harness{
		New: func(t testing.TB) abstractions.Provider { return open(t, t.TempDir(), 0) },
		Peer: func(t testing.TB, p abstractions.Provider) abstractions.Provider {
			return open(t, p.(client).folder, 0)
		},
		Forget: func(t testing.TB, p abstractions.Provider, _ string) {
			sweeper := open(t, p.(client).folder, time.Millisecond)
			forgotten, err := sweeper.Sweep(t.Context())
			for ; forgotten == 0 && err == nil; forgotten, err = sweeper.Sweep(t.Context()) {
			} // the retention may not have passed
			require.NoError(t, err)
		},
	})
}
