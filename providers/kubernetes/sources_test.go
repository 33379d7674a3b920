package kuberneteslease

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// tokenTransport is a transport of the application that gets a token from a source for each request, as client-go's
// transport does for the plug-ins of a kubeconfig.
type tokenTransport struct {
	http.RoundTripper
	source *credentialtest.Source
}

func (b tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := b.source.Err(req.Context()); err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer token")
	return b.RoundTripper.RoundTrip(req)
}

// T119: an error that the application's client itself raises is not an answer about the lease.
func TestTrap_T119_SourcesOfTokensFail(t *testing.T) {
	source, server := &credentialtest.Source{}, httptest.NewServer(&fakeAPI{leases: map[string]map[string]any{}, token: "token"})
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	credentialtest.SourcesOfCredentials(t, credentialtest.SourceCheck{
		Source: source, TTL: time.Minute, Function: true, Transport: true,
		Open: func(t testing.TB) abstractions.Provider {
			return open(t, Options{Address: server.URL, Namespace: "default", Client: &http.Client{Transport: tokenTransport{transport, source}}})
		},
	})
}

// T124: a panic in the application's transport does not end the process.
func TestTrap_T124_ATransportPanics(t *testing.T) {
	server := httptest.NewServer(&fakeAPI{leases: map[string]map[string]any{}, token: "token"})
	t.Cleanup(server.Close)
	credentialtest.ApplicationPanics(t, time.Minute, func(t testing.TB, maybe func()) abstractions.Provider {
		client, wire := faulttest.NewWire(&http.Transport{DisableKeepAlives: true})
		*wire = func(req *http.Request, send faulttest.Sender) (*http.Response, error) { maybe(); return send(req) }
		p, err := Open(t.Context(), Options{Address: server.URL, Namespace: "default", Client: client, Token: providerkit.NewSecret("token")})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		return p
	})
}
