package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// TestTorture_memory is the layer of that name: two minutes of virtual time over memory under
// each ready-made plan. A mutant that breaks a promise should fail it.
func TestTorture_memory(t *testing.T) {
	for _, name := range chaos.Names() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plan, err := chaos.Named(name, 1)
				require.NoError(t, err)
				report, err := torture.Run(context.Background(), torture.Options{
					Open: torture.Share(memlease.New(memlease.Options{})),
					Plan: plan, Seed: 1, For: 2 * time.Minute, MaxSearchSteps: 2_000_000,
				})
				require.NoError(t, err)
				require.Empty(t, report.Violations, "%s", report)
			})
		})
	}
}
