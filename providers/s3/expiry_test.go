package s3lease

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

func TestLeasesEndNeitherEarlyNorLate(t *testing.T) {
	for name, variable := range servers {
		t.Run(name, func(t *testing.T) {
			url := serverURL(t, variable)
			faulttest.LeasesEndInTime(t, 5*time.Second, func() abstractions.Provider { return open(t, url) }, nil)
		})
	}
}

// After its restart gofakes3 is empty, and grants each name at once: no holder still trusts a lease, since the store was down for longer than the
// TTL. Tokens rise by the store's clock.
func TestLossIsSignalledBeforeTheNameIsFree(t *testing.T) {
	for name := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faulttest.LossIsReported(t, 5*time.Second, func(t *testing.T) (*servertest.Server, func(string) abstractions.Provider, abstractions.Provider) {
				s, url := newServer(t, name)
				at := func(addr string) abstractions.Provider { return open(t, url(addr)) }
				return s, at, at(s.Addr())
			})
		})
	}
}
