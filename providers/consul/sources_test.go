package consullease

import (
	"net/http"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
)

// T119: an error from the application's client that does not come from the agent is not an
// answer about the lease.
func TestTrap_T119_SourcesOfTokensFail(t *testing.T) {
	o, source := Options{URL: serverURL(t)}, &credentialtest.Source{}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, wire := faulttest.NewWire(transport)
	*wire = func(req *http.Request, send faulttest.Sender) (*http.Response, error) {
		if err := source.Err(req.Context()); err != nil {
			return nil, err
		}
		return send(req)
	}
	o.Client = client
	credentialtest.SourcesOfCredentials(t, credentialtest.SourceCheck{
		Source: source, TTL: time.Minute, Function: true, Transport: true,
		Open: func(t testing.TB) abstractions.Provider { return open(t, o) },
	})
}
