package torture_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
)

// sweeps are the seeds of TestNoCorrectProviderIsCaughtBySeed: the same few, or as
// many new ones as LEASING_TEST_SWEEP asks for.
func sweeps(t *testing.T) (from, to uint64) {
	text := os.Getenv("LEASING_TEST_SWEEP")
	if text == "" {
		return 0, 15
	}
	n, err := strconv.ParseUint(text, 10, 32)
	require.NoError(t, err)
	from = rand.Uint64() >> 40
	return from, from + n
}

// A checker that refuses what is allowed is worse than none: nobody believes it the
// next time. So a correct provider has to pass under all kinds of plans, with many
// names and few, and with the faults of bad days multiplied.
func TestNoCorrectProviderIsCaughtBySeed_memory(t *testing.T) {
	from, to := sweeps(t)
	undecided, names := 0, 0
	for seed := from; seed < to; seed++ {
		random := rand.New(rand.NewPCG(seed, 0))
		options := torture.Options{
			Plan: anyPlan(random, seed), Seed: seed, For: minute / 2, Repeatable: random.IntN(2) == 0,
			Workers: 2 + random.IntN(10), Names: 1 << random.IntN(6),
			Manager:        leasing.Options{RequestTimeout: time.Duration(random.IntN(3)) * 700 * ms},
			MaxSearchSteps: 1_000_000,
		}
		report := virtual(t, options, nil)
		require.Empty(t, report.Violations, "seed %d:\n%s", seed, report)
		undecided += len(report.Undecided)
		names += 2 * options.Names // two layers
	}
	t.Logf("%d of %d orders undecided", undecided, names)
	require.Less(t, 20*undecided, names)
}

// anyPlan is a ready-made plan or two of them at a time.
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
	one, two := plans[random.IntN(len(plans))], plans[random.IntN(len(plans))]
	if one.Name != two.Name && random.IntN(2) == 0 {
		for _, rule := range two.Rules {
			rule.Name = two.Name + ": " + rule.Name
			one.Rules = append(one.Rules, rule)
		}
	}
	one.Name = fmt.Sprintf("%s-%d", one.Name, len(one.Rules))
	return one
}
