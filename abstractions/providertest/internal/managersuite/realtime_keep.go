package managersuite

import (
	"context"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// realKeepingChecks are about AcquireOptions.AtLeast.
var realKeepingChecks = []managerCheck{
	// In this check a lease is released, or its manager is closed before or after its holder returns, or its process
	// exits and sends nothing more.
	{"AtLeastKeepsTheName", func(ctx context.Context, e *suite.Env, _ *testManager) {
		least := e.Short
		released := func(_ *testManager, lease *leasing.Lease) { e.NoError(lease.Release(ctx)) }
		closed := func(m *testManager, lease *leasing.Lease) {
			done := begin(e, func() error {
				m.awaitEnd(lease, e.Slack)
				return lease.Release(ctx)
			})
			e.NoError(m.Close(ctx))
			e.NoError(within(e, e.Slack, done, "a release while the manager closes"))
		}
		outlasting := func(m *testManager, lease *leasing.Lease) {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			e.ErrorIs(m.Close(ended), context.Canceled)
			e.ErrorIs(lease.Release(ctx), abstractions.ErrLost)
		}
		exited := func(m *testManager, _ *leasing.Lease) {
			m.setFault(renews, lostRequest)
			m.setFault(releases, lostRequest)
		}
		var kept []<-chan struct{}
		keeps := func(how string, ttl time.Duration, end func(*testManager, *leasing.Lease)) {
			kept = append(kept, begin(e, func() (none struct{}) {
				m, name := manageWithoutBatches(e, e.P), e.Name()
				sent := time.Now()
				lease := m.get(name, &leasing.AcquireOptions{TTL: ttl, AtLeast: least})
				end(m, lease)
				what := fmt.Sprintf("a lease with a TTL of %v, %s", ttl, how)
				next := takeOver(e, name, what) // within 2 TTLs
				e.GreaterOrEqual(time.Since(sent), least-e.Tolerance(least), what)
				next.Release()
				return none
			}))
		}
		ttls := []time.Duration{least, e.Long}
		if e.Caps.Infinite {
			ttls = append(ttls, leasing.Infinite)
		}
		for _, ttl := range ttls {
			keeps("released", ttl, released)
			keeps("whose manager is closed", ttl, closed)
			keeps("whose holder outlasts the manager", ttl, outlasting)
		}
		keeps("whose process exits", least, exited)
		limit := 4*least + e.Caps.Lateness.After(least) + 3*e.Slack
		for _, k := range kept {
			within(e, limit, k, "the end of a lease that keeps its name")
		}
	}},
}
