package torture_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
)

func TestSameSeedAndPlanGiveTheSameHistoryTwice_memory(t *testing.T) {
	for _, name := range chaos.Names() {
		t.Run(name, func(t *testing.T) {
			history := func(seed uint64) string {
				plan, err := chaos.Named(name, seed)
				require.NoError(t, err)
				report := virtual(t, torture.Options{Plan: plan, Seed: seed, For: minute / 3, Repeatable: true}, nil)
				return fmt.Sprintf("%+v", *report.History())
			}
			once := history(7)
			require.Equal(t, once, history(7))
			require.NotEqual(t, once, history(8))
		})
	}
}
