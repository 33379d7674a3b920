package consullease

import (
	"net/http"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest"
)

// T119: an error of the application's client that is not the agent's is not an answer about the
// lease.
func TestTrap_T119_SourcesOfTokensFail(t *testing.T) {
	o, source := Options{URL: named(t)}, &providertest.Source{}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, wire := providertest.NewWire(transport)
	*wire = func(req *http.Request, send providertest.Sender) (*http.Response, error) {
		if err := source.Err(req.Context()); err != nil {
			return nil, err
		}
		return send(req)
	}
	o.Client = client
	providertest.SourcesOfCredentials(t, providertest.SourceCheck{
		Source: source, TTL: time.Minute, Function: true, Transport: true,
		Open: func(t testing.TB) abstractions.Provider { return open(t, o) },
	})
}
