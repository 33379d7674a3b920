package etcdlease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// T122: new connections use the newest contents of the CA file.
func TestTrap_T122_TLSFilesAreReadAgain(t *testing.T) {
	member := Options{URL: serverURL(t)}
	require.NoError(t, member.complete())
	credentialtest.OutlivesNewAuthority(t, member.Endpoints[0], "h2", func(addr string, files servertest.Pair) abstractions.Provider {
		return open(t, Options{
			Endpoints: []string{addr}, Prefix: abstractions.NewID(), Timeout: 5 * time.Second, CAFile: files.CA, CertFile: files.Cert, KeyFile: files.Key,
		})
	})
}
