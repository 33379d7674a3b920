package cas_test

import (
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// TestConformanceOfRecords checks leases over a store with compare-and-set whose service reports
// times in whole seconds, reports no times of writes, or has leases of its own.
func TestConformanceOfRecords(t *testing.T) {
	for name, open := range map[string]func() (*providerkit.Provider, *cas.Records, *providerkit.Provider){"Times": cas.MemoryProviders, "Undated": cas.UndatedProviders, "Leases": cas.LeaseProviders} {
		t.Run(name, func(t *testing.T) {
			if name != "Leases" {
				servertest.Long(t)
			}
			providertest.Run(t, providertest.Harness{
				Virtual: true,
				Watched: name == "Undated",
				New: func(testing.TB) abstractions.Provider {
					p, records, peer := open()
					return client{p, records, peer}
				},
				Peer:    func(_ testing.TB, p abstractions.Provider) abstractions.Provider { return p.(client).peer },
				Records: func(p abstractions.Provider) *cas.Records { return p.(client).records },
			})
		})
	}
}

type client struct {
	*providerkit.Provider
	records *cas.Records
	peer    *providerkit.Provider
}
