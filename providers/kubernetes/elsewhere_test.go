package kuberneteslease

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// T118: a token goes only to the API server, even with an application's client, which would follow redirects.
func TestTrap_T118_TheTokenFollowsNoRedirect(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("s3cret\n"), 0o600))
	for name, o := range map[string]Options{
		"Token":     {Token: providerkit.NewSecret("s3cret")},
		"TokenFile": {TokenFile: file},
		"Client":    {TokenFile: file, Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			credentialtest.NoSecretIsRedirected(t, func(t testing.TB, url string) (abstractions.Provider, error) {
				o := o
				o.Address, o.Namespace = url, "default"
				return openUnprobed(t, o), nil
			}, "Bearer s3cret", "s3cret")
		})
	}
}
