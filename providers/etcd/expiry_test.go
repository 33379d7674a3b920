package etcdlease

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

func TestLeasesEndNeitherEarlyNorLate(t *testing.T) {
	t.Parallel()
	o := Options{URL: serverURL(t), Prefix: "expiry"}
	faulttest.LeasesEndInTime(t, 3*time.Second, func() abstractions.Provider { return open(t, o) }, nil)
}

// A new leader restarts the whole TTL of each lease, so leases end late but never early.
func TestLeasesEndLateAfterAChangeOfLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	faulttest.LeasesEndInTime(t, 5*time.Second, func() abstractions.Provider { return c.open() }, c.moveLeader)
}

// When the member that a holder uses fails, the loss is reported before another claim gets the name from the other members.
func TestLossIsSignalledBeforeTheNameIsFree(t *testing.T) {
	const ttl = 3 * time.Second
	faulttest.LossIsReported(t, ttl, func(t *testing.T) (*servertest.Server, func(string) abstractions.Provider, abstractions.Provider) {
		c := newCluster(t, 3)
		return c.members[0], func(addr string) abstractions.Provider { return c.at(addr) }, c.open(1, 2)
	})
	t.Run("paused, and the leader moves", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, 3)
		faulttest.LossIsReportedAfter(t, ttl, c.open(0), c.open(1, 2), func() func() {
			c.members[0].Pause()
			if c.leader() != 0 {
				c.moveLeader()
			}
			return c.members[0].Resume
		})
	})
}
