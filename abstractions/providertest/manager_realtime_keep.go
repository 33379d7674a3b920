package providertest

import (
	"context"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// managerRealKeepingChecks are about AcquireOptions.AtLeast.
var managerRealKeepingChecks = []managerCheck{
	// A lease is released, its manager is closed, before its holder returns or after that, or its process exits, which
	// then sends nothing more.
	{"AtLeastKeepsTheName", func(ctx context.Context, e *env, _ *managed) {
		least := e.short
		released := func(_ *managed, lease *leasing.Lease) { e.NoError(lease.Release(ctx)) }
		closed := func(m *managed, lease *leasing.Lease) {
			done := begin(e, func() error {
				m.ends(lease, e.h.Slack)
				return lease.Release(ctx)
			})
			e.NoError(m.Close(ctx))
			e.NoError(within(e, e.h.Slack, done, "a release while the manager closes"))
		}
		outlasting := func(m *managed, lease *leasing.Lease) {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			e.ErrorIs(m.Close(ended), context.Canceled)
			e.ErrorIs(lease.Release(ctx), abstractions.ErrLost)
		}
		exited := func(m *managed, _ *leasing.Lease) {
			m.bend(renews, lostRequest)
			m.bend(releases, lostRequest)
		}
		var kept []<-chan struct{}
		keeps := func(how string, ttl time.Duration, end func(*managed, *leasing.Lease)) {
			kept = append(kept, begin(e, func() (none struct{}) {
				m, name := e.manageAlone(e.p), e.name()
				sent := time.Now()
				lease := m.get(name, &leasing.AcquireOptions{TTL: ttl, AtLeast: least})
				end(m, lease)
				what := fmt.Sprintf("a lease with a TTL of %v, %s", ttl, how)
				next := e.takesOver(name, what) // within 2 TTLs
				e.GreaterOrEqual(time.Since(sent), least-e.tolerance(least), what)
				next.release()
				return none
			}))
		}
		ttls := []time.Duration{least, e.long}
		if e.caps.Infinite {
			ttls = append(ttls, leasing.Infinite)
		}
		for _, ttl := range ttls {
			keeps("released", ttl, released)
			keeps("whose manager is closed", ttl, closed)
			keeps("whose holder outlasts the manager", ttl, outlasting)
		}
		keeps("whose process exits", least, exited)
		limit := 4*least + e.caps.Lateness.After(least) + 3*e.h.Slack
		for _, k := range kept {
			within(e, limit, k, "the end of a lease that keeps its name")
		}
	}},
}
