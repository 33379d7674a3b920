package auth

import (
	"net/http"
	"os"
	"testing"

	"github.com/distributedleasing/leasing/abstractions/credentialtest"
)

// T120: requests to the metadata service bypass the proxy, in all modes.
func TestTrap_T120_TheMetadataServiceHasNoProxy(t *testing.T) {
	const proxy = "http://127.0.0.1:1"
	if os.Getenv("LEASING_TEST_PROXIED") == "" {
		credentialtest.Proxied(t, proxy)
		return
	}
	o := Options{Mode: Auto}
	client, _ := o.clientOptions()
	transport := client.Transport.(*http.Client).Transport.(*http.Transport)
	credentialtest.LinkLocalIsNotProxied(t, transport.Proxy, proxy)
}
