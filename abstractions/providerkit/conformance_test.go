package providerkit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

type driver struct{ *memlease.Provider }

func (driver) Classify(error) providerkit.Meaning { return providerkit.Meaning{} }

// TestConformance puts the shell around a driver that is known to be right.
func TestConformance(t *testing.T) {
	for _, detach := range []bool{false, true} {
		for _, virtual := range []bool{false, true} {
			t.Run(fmt.Sprintf("Detach=%t,Virtual=%t", detach, virtual), func(t *testing.T) {
				if detach != virtual {
					servertest.Long(t)
				}
				providertest.Run(t, providertest.Harness{Virtual: virtual, New: func(testing.TB) abstractions.Provider {
					d := driver{memlease.New(memlease.Options{History: 100})}
					return providerkit.New(d, providerkit.Config{Timeout: 10 * time.Second, Detach: detach})
				}})
			})
		}
	}
}

// TestConformanceOfRecords is of leases over a store with compare-and-set, whose
// service tells whole seconds, tells no time of writes, or has leases of its own.
func TestConformanceOfRecords(t *testing.T) {
	for name, open := range map[string]func() (*providerkit.Provider, *providerkit.Records, *providerkit.Provider){"Times": providerkit.Shelf, "Undated": providerkit.Undated, "Leases": providerkit.Rack} {
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
				Records: func(p abstractions.Provider) *providerkit.Records { return p.(client).records },
			})
		})
	}
}

type client struct {
	*providerkit.Provider
	records *providerkit.Records
	peer    *providerkit.Provider
}
