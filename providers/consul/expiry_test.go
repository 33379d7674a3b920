package consullease

import (
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/recordstest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

func TestLeasesEndNeitherEarlyNorLate(t *testing.T) {
	url := serverURL(t)
	faulttest.LeasesEndInTime(t, 3*time.Second, func() abstractions.Provider { return open(t, Options{URL: url}) }, nil)
}

func TestLossIsSignalledBeforeTheNameIsFree(t *testing.T) {
	faulttest.LossIsReported(t, 3*time.Second, func(t *testing.T) (*servertest.Server, func(string) abstractions.Provider, abstractions.Provider) {
		s := newServer(t, "")
		at := func(addr string) abstractions.Provider { return open(t, Options{Address: "http://" + addr}) }
		return s, at, at(s.Addr())
	})
}

// T127: if a token from a clock that was ahead is forgotten, later tokens are still greater.
func TestTrap_T127_TheFloorIsKeptAndObeyed(t *testing.T) {
	url := serverURL(t)
	p := open(t, Options{URL: url[:strings.LastIndex(url, "/")+1] + abstractions.NewID()})
	recordstest.Floor(t, p, &p.driver.Records)
}
