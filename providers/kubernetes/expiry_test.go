package kuberneteslease

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/recordstest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

func TestLeasesEndNeitherEarlyNorLate(t *testing.T) {
	url := serverURL(t)
	faulttest.LeasesEndInTime(t, 5*time.Second, func() abstractions.Provider { return open(t, Options{URL: url}) }, nil)
}

func TestLossIsSignalledBeforeTheNameIsFree(t *testing.T) {
	faulttest.LossIsReported(t, 5*time.Second, func(t *testing.T) (*servertest.Server, func(string) abstractions.Provider, abstractions.Provider) {
		s, options := newServer(t)
		at := func(addr string) abstractions.Provider { return open(t, options(addr)) }
		return s, at, at(s.Addr())
	})
}

// T127: after a token from a clock that was ahead is forgotten, later tokens are still greater. Each namespace
// has one floor, so the test uses a new namespace.
func TestTrap_T127_TheFloorIsKeptAndObeyed(t *testing.T) {
	p, namespace := open(t, Options{URL: serverURL(t)}), "floor-"+abstractions.NewID()
	s := p.driver.store
	object := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]string{"name": namespace}}
	_, err := s.client.Do(t.Context(), http.MethodPost, "/api/v1/namespaces", nil, object, &struct{}{})
	require.NoError(t, err)
	s.path = strings.Replace(s.path, "/namespaces/default/", "/namespaces/"+namespace+"/", 1)
	recordstest.Floor(t, p, &p.driver.Records)
}
