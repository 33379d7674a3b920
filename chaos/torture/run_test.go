package torture_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
)

func TestReadyMadePlansHoldInVirtualTime_memory(t *testing.T) {
	t.Parallel()
	for _, name := range chaos.Names() {
		t.Run(name, func(t *testing.T) {
			plan, err := chaos.Named(name, 7)
			require.NoError(t, err)
			report := virtual(t, torture.Options{Plan: plan, Seed: 7, For: minute / 2}, nil)
			t.Logf("\n%s", report)
			require.Empty(t, report.Violations)
		})
	}
}
