package torture_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/broken"
	"github.com/distributedleasing/leasing/chaos/torture"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// caughtBy names a check that finds each broken provider. The keys are the names of the defects.
var caughtBy = map[string]torture.Check{
	"two holders after a race":                history.CheckOverlap,
	"a release resets the token":              history.CheckTokens,
	"a renewal revives":                       history.CheckLinearizable,
	"leases expire early":                     history.CheckLinearizable,
	"leases expire late":                      history.CheckLeak,
	"loss is signalled late":                  history.CheckOverlap,
	"a key is immortal":                       history.CheckLeak,
	"releasing one frees the other's":         history.CheckOverlap,
	"a lost reply makes later renewals fail":  history.CheckLinearizable,
	"a retry is blocked by its first attempt": history.CheckLinearizable,
	"a batch mixes up its answers":            history.CheckAnswer,
	"a released claim is taken again":         history.CheckGhost,
}

// short returns the options of a short run.
func short(defect broken.Defect, seed uint64) torture.Options {
	plan, err := chaos.Named(defect.Plan, seed)
	if err != nil {
		panic(err)
	}
	options := torture.Options{Plan: plan, Seed: seed, For: minute / 2, Repeatable: true, MaxSearchSteps: 2_000_000}
	if defect.Trap == "T56" { // the defect shows only if a copy of a request arrives late, and no other claim has acquired the name since
		options.Plan = chaos.FlakyNetwork(chaos.FlakyNetworkOptions{Seed: seed, Probability: 0.2})
		options.Names = 32
	}
	if defect.Trap == "T66" { // no worker holds several leases in a repeatable run
		options.Repeatable, options.For, options.Names = false, 2*minute, 64
	}
	return options
}

func TestEachBrokenProviderIsCaught_memory(t *testing.T) {
	t.Parallel()
	for _, defect := range broken.All() {
		t.Run(defect.Trap+" "+defect.Name, func(t *testing.T) {
			check, ok := caughtBy[defect.Name]
			require.True(t, ok, "a check is named")
			report := virtual(t, short(defect, 7), defect.Wrap)
			require.False(t, report.OK())
			found := slices.ContainsFunc(report.Violations, func(v torture.Violation) bool { return v.Check == check })
			require.True(t, found, "%s:\n%s", check, report)
			t.Logf("%s", report.Violations[0])
		})
	}
}

// Without a defect, the plans alone cause no violation.
func TestNoCorrectProviderIsCaught_memory(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	under := map[string]bool{}
	for _, defect := range broken.All() {
		options := short(defect, 7)
		if run := fmt.Sprint(options.Plan.Name, options.Names, options.For); !under[run] {
			under[run] = true
			report := virtual(t, options, broken.Correct)
			require.Empty(t, report.Violations, "%s", defect.Name)
		}
	}
}
