package torture_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
)

// sweeps returns the seeds of TestNoCorrectProviderIsCaughtBySeed: a few fixed seeds, or as
// many new seeds as LEASING_TEST_SWEEP says, or n seeds beginning with from if it is "from+n".
func sweeps(t *testing.T) (from, to uint64) {
	text := os.Getenv("LEASING_TEST_SWEEP")
	switch {
	case text == "" && testing.Short():
		return 0, 6
	case text == "":
		return 0, 16
	}
	first, many, given := strings.Cut(text, "+")
	if !given {
		first, many = fmt.Sprint(rand.Uint64()>>40), text
	}
	from, err := strconv.ParseUint(first, 10, 64)
	require.NoError(t, err)
	n, err := strconv.ParseUint(many, 10, 32)
	require.NoError(t, err)
	return from, from + n
}

// A checker with false alarms is worse than no checker, because its users ignore the next
// violation. So a correct provider must pass under all kinds of plans, with few names and with
// many, and with many more faults than on a bad day.
func TestNoCorrectProviderIsCaughtBySeed_memory(t *testing.T) {
	t.Parallel()
	from, to := sweeps(t)
	undecided, names := 0, 0
	for seed := from; seed < to; seed++ {
		random := rand.New(rand.NewPCG(seed, 0))
		options := torture.Options{
			Plan: anyPlan(random, seed), Seed: seed, For: minute / 2, Repeatable: random.IntN(2) == 0,
			Workers: 2 + random.IntN(10), Names: 1 << random.IntN(6), Intensity: []float64{1, 1, 5, 20}[random.IntN(4)],
			Manager:        leasing.Options{Tuning: leasing.Tuning{RequestTimeout: time.Duration(random.IntN(3)) * 700 * ms}},
			MaxSearchSteps: 1_000_000,
		}
		report := virtualAt(t, options, anyClock(random), nil)
		if !report.OK() {
			t.Errorf("seed %d: %s\nhistory: %s", seed, report, written(t, seed, report))
		}
		undecided += len(report.Undecided)
		names += 2 * options.Names // two layers
	}
	t.Logf("%d of %d orders undecided in the runs of seeds %d to %d", undecided, names, from, to-1)
	require.Less(t, 100*undecided, names)
}

// written writes a run's history to a file, for torture.Verify. With -artifacts the file is kept. Most runs
// can't be repeated, because their seed does not determine the order of simultaneous events.
func written(t *testing.T, seed uint64, report *torture.Report) string {
	name := filepath.Join(t.ArtifactDir(), fmt.Sprintf("history-%d.json", seed))
	file, err := os.Create(name)
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, report.WriteHistory(file))
	return name
}

// anyClock returns a backend's clock that is exact, or that is fast or slow and may make small
// steps, within the margin of trust.
func anyClock(random *rand.Rand) func() time.Time {
	if random.IntN(2) == 0 {
		return time.Now
	}
	var start time.Time
	rate, step := 0.01*(random.Float64()-0.5), random.Float64() < 0.5
	return func() time.Time {
		if start.IsZero() {
			start = time.Now()
		}
		since := time.Since(start)
		ahead := time.Duration(rate * float64(since))
		if step { // a step of 1 ms every 250 ms
			ahead += since.Truncate(250*ms) / 250
		}
		return time.Now().Add(ahead)
	}
}

// anyPlan returns a ready-made or empty plan, with up to three random rules added.
func anyPlan(random *rand.Rand, seed uint64) chaos.Plan {
	flaky := chaos.FlakyNetworkOptions{Seed: seed, Probability: 0.02 + 0.3*random.Float64(), MaxDelay: time.Duration(1+random.IntN(150)) * ms}
	plans := []chaos.Plan{
		chaos.FlakyNetwork(flaky),
		chaos.LostReplies(chaos.LostRepliesOptions{Seed: seed, Probability: 0.5 * random.Float64(), Timeout: time.Duration(random.IntN(900)) * ms}),
		chaos.Partition(chaos.PartitionOptions{Seed: seed, For: time.Duration(1+random.IntN(8)) * time.Second}),
		chaos.StealLease(chaos.StealLeaseOptions{Seed: seed, RunOut: random.IntN(2) == 0}),
		chaos.SlowBackend(chaos.SlowBackendOptions{Seed: seed, Stall: 0.1 * random.Float64()}),
		chaos.TotalOutage(chaos.TotalOutageOptions{Seed: seed, Hang: random.IntN(2) == 0}),
	}
	plans = append(plans,
		chaos.GrayFailure(chaos.GrayFailureOptions{Seed: seed, Probability: 0.1 * random.Float64()}),
		chaos.ThrottledAccount(chaos.ThrottledAccountOptions{Seed: seed}),
		chaos.Plan{Name: "any", Seed: seed},
	)
	plan := plans[random.IntN(len(plans))]
	for n := range random.IntN(4) {
		rule := anyRule(random)
		rule.Name = fmt.Sprintf("any %d", n)
		plan.Rules = append(plan.Rules, rule)
	}
	plan.Name = fmt.Sprintf("%s-%d", plan.Name, len(plan.Rules))
	return plan
}

// anyRule returns a rule of a random kind of fault.
func anyRule(random *rand.Rand) chaos.Rule {
	kinds := []chaos.FaultKind{
		chaos.FaultDelay, chaos.FaultError, chaos.FaultThrottle, chaos.FaultHang, chaos.FaultRequestLost, chaos.FaultReplyLost,
		chaos.FaultDeliveredLate, chaos.FaultAppliedTwice, chaos.FaultStaleRead, chaos.FaultBroken, chaos.FaultPartitioned, chaos.FaultWakeupsLost,
	}
	some := func(d time.Duration) time.Duration {
		return time.Duration(float64(d)*random.Float64()*random.Float64()) * time.Duration(random.IntN(2))
	}
	flip := func() bool { return random.IntN(3) == 0 }
	for {
		r := chaos.Rule{Fault: chaos.Fault{
			Kind: kinds[random.IntN(len(kinds))], Delay: some(3 * time.Second), Jitter: some(3 * time.Second), After: flip(),
			RetryAfter: some(time.Second), RunOut: flip(), Heedless: flip(),
		}}
		if flip() {
			from := some(20 * time.Second)
			r.When = chaos.Policy{From: from, To: from + time.Second + some(8*time.Second)}
		}
		if r.Fault.Kind != chaos.FaultPartitioned {
			r.When.Probability = 0.01 + 0.3*random.Float64()
		}
		if flip() {
			ops := []chaos.Op{chaos.OpAcquire, chaos.OpRenew, chaos.OpRelease, chaos.OpWait}
			r.Match.Ops = ops[random.IntN(len(ops)):][:1]
		}
		if flip() {
			r.Match.Owners = []string{"*1", "*4"}
		}
		if (chaos.Plan{Rules: []chaos.Rule{r}}).Validate() == nil {
			return r
		}
	}
}
