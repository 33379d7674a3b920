package main

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// TestTorture_memory is the layer of that name: two minutes of virtual time over memory under
// each ready-made plan; once as it is, once busier, and once with longer leases and without
// wake-ups and batches. A mutant that breaks a promise should fail it.
func TestTorture_memory(t *testing.T) {
	servertest.Long(t)
	for _, name := range chaos.Names() {
		for _, v := range []struct {
			ttl       time.Duration
			intensity float64
			bare      bool
		}{{2 * time.Second, 1, false}, {2 * time.Second, 5, false}, {10 * time.Second, 1, true}} {
			t.Run(fmt.Sprint(name, " ", v.ttl, " ", v.intensity), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					plan, err := chaos.Named(name, 1)
					require.NoError(t, err)
					var provider leasing.Provider = memlease.New(memlease.Options{})
					if v.bare {
						provider = bare{provider}
					}
					report, err := torture.Run(context.Background(), torture.Options{
						Open: torture.Share(provider),
						Plan: plan, Seed: 1, For: 2 * time.Minute, TTL: v.ttl, Intensity: v.intensity, MaxSearchSteps: 2_000_000,
					})
					require.NoError(t, err)
					require.Empty(t, report.Violations, "%s", report)
				})
			})
		}
	}
}

// bare is a provider without abilities: managers poll, and renew one lease at a time.
type bare struct{ leasing.Provider }

func (bare) As(any) bool { return false }
