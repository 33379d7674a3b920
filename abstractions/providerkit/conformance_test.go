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

// TestConformance checks a Provider around a driver that is known to be
// correct.
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
