package consullease

import (
	"net/http"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// T118: the token goes only to the agent, even with an application's client, which would follow redirects.
func TestTrap_T118_TheTokenFollowsNoRedirect(t *testing.T) {
	for name, client := range map[string]*http.Client{"own": nil, "application's": {Transport: &http.Transport{DisableKeepAlives: true}}} {
		t.Run(name, func(t *testing.T) {
			credentialtest.NoSecretIsRedirected(t, func(t testing.TB, url string) (abstractions.Provider, error) {
				return openUnprobed(t, Options{Address: url, Token: providerkit.NewSecret("s3cret"), Client: client}), nil
			}, "s3cret", "s3cret")
		})
	}
}
