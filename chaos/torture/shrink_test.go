package torture_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/broken"
	"github.com/distributedleasing/leasing/chaos/torture"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func memory() leasing.Provider { return memlease.New(memlease.Options{}) }

func TestVirtualIsATestInVirtualTime_memory(t *testing.T) {
	report := torture.TestVirtual(t, memory, torture.Options{Plan: chaos.LostReplies(chaos.LostRepliesOptions{}), For: minute / 4})
	require.Positive(t, report.Grants)
}

// Rules, workers, names and time that are not needed for the failure are left out.
func TestShrinkLeavesWhatIsNeeded(t *testing.T) {
	options := torture.Options{Plan: chaos.FlakyNetwork(chaos.FlakyNetworkOptions{Seed: 3}), Seed: 7, For: minute, Names: 16, Manager: leasing.Options{Tuning: leasing.Tuning{DriftFactor: 0.25}}}
	needs := func(o torture.Options) bool {
		has := func(kind chaos.FaultKind) bool {
			return slices.ContainsFunc(o.Plan.Rules, func(r chaos.Rule) bool { return r.Fault.Kind == kind })
		}
		workers := o.Workers
		if workers == 0 {
			workers = 8
		}
		return has(chaos.FaultReplyLost) && has(chaos.FaultAppliedTwice) && workers >= 3 && o.For > 5*time.Second
	}
	least, text := torture.Shrink(options, needs)
	require.Len(t, least.Plan.Rules, 2)
	require.Equal(t, 3, least.Workers)
	require.Equal(t, 1, least.Names)
	require.Equal(t, 7500*ms, least.For)
	require.True(t, least.Repeatable)
	for _, want := range []string{
		"func TestAgain(t *testing.T) {", `"kind":"reply_lost"`, `"kind":"applied_twice"`, "torture.TestVirtual(t, backend, torture.Options{",
		"\t\tPlan: plan,\n", "\t\tSeed: 7,\n", "\t\tWorkers: 3,\n", "\t\tFor: 7500000000,\n", "\t\tRepeatable: true,\n", "leasing.Options{\n\t\t\tTuning: leasing.Tuning{\n\t\t\t\tDriftFactor: 0.25,\n\t\t\t},\n\t\t},",
	} {
		require.Contains(t, text, want)
	}
	_, plan, _ := strings.Cut(text, "ParsePlan([]byte(`")
	plan, _, _ = strings.Cut(plan, "`")
	parsed, err := chaos.ParsePlan([]byte(plan))
	require.NoError(t, err)
	require.Equal(t, least.Plan, parsed)

	none, text := torture.Shrink(options, func(torture.Options) bool { return true })
	require.Empty(t, none.Plan.Rules)
	_, plan, _ = strings.Cut(text, "ParsePlan([]byte(`")
	plan, _, _ = strings.Cut(plan, "`")
	_, err = chaos.ParsePlan([]byte(plan))
	require.NoError(t, err)
	require.Equal(t, 1, none.Workers)
	same, _ := torture.Shrink(options, func(o torture.Options) bool { return len(o.Plan.Rules) == len(options.Plan.Rules) })
	require.Len(t, same.Plan.Rules, len(options.Plan.Rules))
}

// TestTrap_T276_ATestForAPlanWithCodeSaysSo: JSON cannot represent a CustomPolicy.
func TestTrap_T276_ATestForAPlanWithCodeSaysSo(t *testing.T) {
	rule := chaos.Rule{Name: "mine", Fault: chaos.Fault{Kind: chaos.FaultError}, When: chaos.Policy{Custom: all{}}}
	_, text := torture.Shrink(torture.Options{Plan: chaos.Plan{Rules: []chaos.Rule{rule}}}, func(o torture.Options) bool { return len(o.Plan.Rules) > 0 })
	require.Contains(t, text, "var plan chaos.Plan // make it as follows")
	require.Contains(t, text, "//   mine: each operation fails, picked by torture_test.all")
	require.NotContains(t, text, "ParsePlan")
}

// all is a policy that picks each operation.
type all struct{}

func (all) Picks(chaos.Operation) bool { return true }

// A shrunk run fails the same check as the original run.
func TestShrunkRunFailsAgain_memory(t *testing.T) {
	defects := broken.All()
	defect := defects[slices.IndexFunc(defects, func(d broken.Defect) bool { return d.Trap == "T13" })]
	fails := func(o torture.Options) bool {
		return slices.Contains(kindsOf(virtual(t, o, defect.Wrap)), history.CheckLinearizable)
	}
	options := short(defect, 7)
	options.Plan.Rules = append(options.Plan.Rules, chaos.SlowBackend(chaos.SlowBackendOptions{}).Rules...)
	require.True(t, fails(options))
	least, text := torture.Shrink(options, fails)
	require.True(t, fails(least))
	require.Less(t, len(least.Plan.Rules), len(options.Plan.Rules))
	require.Less(t, least.For, options.For)
	t.Log(text)
}

// The check of a saved history gives the same result as the run.
func TestSavedHistoryIsVerifiedAgain_memory(t *testing.T) {
	for _, report := range []*torture.Report{failed(t), runUnder(t, "gray-failure", torture.Options{For: minute / 4, Manager: leasing.Options{Tuning: leasing.Tuning{DriftFactor: 0.02}}})} {
		var file bytes.Buffer
		require.NoError(t, report.WriteHistory(&file))
		again, err := torture.Verify(&file)
		require.NoError(t, err)
		require.Equal(t, report.String(), again.String())
		require.Equal(t, report.Violations, again.Violations)
		require.Equal(t, recordOf(t, report).History, recordOf(t, again).History)
	}
	for _, text := range []string{"", "{", "{}", `{"format":"leasing torture history 1"}`, `{"format":"another","history":{}}`} {
		_, err := torture.Verify(strings.NewReader(text))
		require.ErrorContains(t, err, "read a history", text)
	}
}
