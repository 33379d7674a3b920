package torture_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/broken"
	"github.com/distributedleasing/leasing/chaos/torture"
)

// caughtBy names a check that notices each broken provider: the entry of TRAPS that
// it stands for, and what gives it away.
var caughtBy = map[string]torture.Check{
	"two holders after a race":               torture.Overlap,
	"a release resets the token":             torture.Tokens,
	"a renewal revives":                      torture.Linearizable,
	"leases expire early":                    torture.Linearizable,
	"loss is signalled late":                 torture.Overlap,
	"a key is immortal":                      torture.Leak,
	"releasing one frees the other's":        torture.Overlap,
	"a lost reply makes later renewals fail": torture.Linearizable,
}

// short is a run of the short form.
func short(defect broken.Defect, seed uint64) torture.Options {
	plan, err := chaos.Named(defect.Plan, seed)
	if err != nil {
		panic(err)
	}
	return torture.Options{Plan: plan, Seed: seed, For: minute / 2, Repeatable: true}
}

func TestEachBrokenProviderIsCaught_memory(t *testing.T) {
	for _, defect := range broken.All() {
		if defect.Plan == "" {
			continue // workers suffer from it, but what they see could be true
		}
		t.Run(defect.Trap+" "+defect.Name, func(t *testing.T) {
			check, ok := caughtBy[defect.Name]
			require.True(t, ok, "a check is named")
			report := virtual(t, short(defect, 1), defect.Wrap)
			require.False(t, report.OK())
			found := slices.ContainsFunc(report.Violations, func(v torture.Violation) bool { return v.Check == check })
			require.True(t, found, "%s:\n%s", check, report)
			t.Logf("%s", report.Violations[0])
		})
	}
}

// What is caught is the defect, not the wrapper or the plan.
func TestNoCorrectProviderIsCaught_memory(t *testing.T) {
	for _, defect := range broken.All() {
		if defect.Plan == "" {
			continue
		}
		report := virtual(t, short(defect, 1), broken.Correct)
		require.Empty(t, report.Violations, "%s", defect.Name)
	}
}
