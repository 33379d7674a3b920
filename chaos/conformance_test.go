package chaos_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/chaos"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// never returns a plan whose rules decide about every operation and never fire, so that all
// operations pass through the code of the faults.
func never() chaos.Plan {
	kinds := []chaos.FaultKind{
		chaos.FaultError, chaos.FaultThrottle, chaos.FaultHang, chaos.FaultRequestLost, chaos.FaultReplyLost,
		chaos.FaultAppliedTwice, chaos.FaultBroken, chaos.FaultWakeupsLost,
	}
	plan := chaos.Plan{Rules: []chaos.Rule{
		{Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: time.Hour}, When: chaos.Policy{Skip: 1 << 40}},
		{Fault: chaos.Fault{Kind: chaos.FaultDeliveredLate, Delay: time.Hour}, When: chaos.Policy{Skip: 1 << 40}},
		{Fault: chaos.Fault{Kind: chaos.FaultStaleRead, Delay: time.Hour}, When: chaos.Policy{Skip: 1 << 40}},
		{Fault: chaos.Fault{Kind: chaos.FaultPartitioned}, When: chaos.Policy{From: 1 << 60}},
		{Name: "batch", Fault: chaos.Fault{Kind: chaos.FaultError}, When: chaos.Policy{Skip: 1 << 40}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpRenewBatch}}},
	}}
	for _, kind := range kinds {
		plan.Rules = append(plan.Rules, chaos.Rule{Fault: chaos.Fault{Kind: kind}, When: chaos.Policy{Skip: 1 << 40}})
	}
	return plan
}

// everythingTwice returns a plan that applies operations twice, which does not change the answers
// of a correct provider. It leaves out Break, whose answers would change.
func everythingTwice() chaos.Plan {
	return chaos.Plan{Rules: []chaos.Rule{{
		Fault: chaos.Fault{Kind: chaos.FaultAppliedTwice},
		Match: chaos.Match{Ops: []chaos.Op{chaos.OpAcquire, chaos.OpRenew, chaos.OpRelease, chaos.OpWait}},
	}}}
}

func harness(plan chaos.Plan, disabled bool) providertest.Harness {
	return providertest.Harness{
		Virtual: true,
		New: func(t testing.TB) leasing.Provider {
			p, err := chaos.Wrap(memlease.New(memlease.Options{History: 100}), plan, chaos.Options{})
			require.NoError(t, err)
			if disabled {
				require.NoError(t, p.Disable())
			}
			return p
		},
		Forget:      forget,
		Unreachable: unreachable(chaos.FaultPartitioned),
		Except: map[string]string{
			"Wait_AnUnusedWakeupIsPassedOn":                    "the wrapper has taken it, to lose or to delay it",
			"Trap_T93_AWaiterThatIgnoresItsWakeupIsPassedOver": "the wrapper takes the wake-ups of one that is stuck",
		},
	}
}

// unreachable returns a function that makes a provider whose backend never answers.
func unreachable(kind chaos.FaultKind) func(t testing.TB) leasing.Provider {
	return func(t testing.TB) leasing.Provider {
		plan := chaos.Plan{Rules: []chaos.Rule{{Fault: chaos.Fault{Kind: kind}}}}
		p, err := chaos.Wrap(memlease.New(memlease.Options{History: 100}), plan, chaos.Options{})
		require.NoError(t, err)
		return p
	}
}

// TestOutagesLookReal_memory: if the wrapper makes the backend unreachable, the provider still
// meets the contract for an unreachable backend.
func TestOutagesLookReal_memory(t *testing.T) {
	for _, kind := range []chaos.FaultKind{chaos.FaultHang, chaos.FaultReplyLost} {
		t.Run(string(kind), func(t *testing.T) {
			h := harness(chaos.Plan{}, false)
			h.Unreachable = unreachable(kind)
			providertest.Run(t, h)
		})
	}
}

func TestConformanceWithoutFaults_memory(t *testing.T) {
	providertest.Run(t, harness(chaos.Plan{}, false))
}

func TestConformanceWithRulesThatNeverFire_memory(t *testing.T) {
	servertest.Long(t)
	providertest.Run(t, harness(never(), false))
}

func TestConformanceWhenDisabled_memory(t *testing.T) {
	servertest.Long(t)
	plan := chaos.Plan{Rules: []chaos.Rule{{Fault: chaos.Fault{Kind: chaos.FaultError}}, {Fault: chaos.Fault{Kind: chaos.FaultPartitioned}}}}
	providertest.Run(t, harness(plan, true))
}

func TestConformanceWithEverythingTwice_memory(t *testing.T) {
	servertest.Long(t)
	providertest.Run(t, harness(everythingTwice(), false))
}

// TestConformanceWithAFaultOfOnesOwnThatPasses_memory: a CustomFault that only returns the answer from next has no
// effect.
func TestConformanceWithAFaultOfOnesOwnThatPasses_memory(t *testing.T) {
	servertest.Long(t)
	providertest.Run(t, harness(chaos.Plan{Rules: []chaos.Rule{customRule(passing)}}, false))
}

// forget waits until the name's retention has ended, and then acquires other names until a sweep
// has deleted the name.
func forget(t testing.TB, p leasing.Provider, name string) {
	time.Sleep(providerkit.DefaultRetention)
	for i := 0; ; i++ {
		record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		if record.Token == 0 {
			return
		}
		_, err = p.Acquire(t.Context(), abstractions.AcquireRequest{Name: fmt.Sprint(name, i), ID: abstractions.NewID(), Owner: "test", TTL: time.Second})
		require.NoError(t, err)
	}
}
