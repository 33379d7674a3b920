package chaos_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// TestWarnings has one plan for each warning.
func TestWarnings(t *testing.T) {
	rules := func(rules ...chaos.Rule) chaos.Plan { return chaos.Plan{Rules: rules} }
	lost := chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultRequestLost}}
	with := func(change func(r *chaos.Rule)) chaos.Rule {
		r := lost
		change(&r)
		return r
	}
	for want, plan := range map[string]chaos.Plan{
		"Plan.Rules: there are none, so nothing happens":                 {},
		"Plan.Rules: each is disabled, so nothing happens before Enable": rules(with(func(r *chaos.Rule) { r.Disabled = true })),
		"Plan.Rules[1]: Plan.Rules[0] takes its operations first":        rules(lost, lost),
		"Plan.Rules[0].Match.Ops: list, ping has no name": rules(with(func(r *chaos.Rule) {
			r.Match = chaos.Match{Names: []string{"a"}, Ops: []chaos.Op{chaos.OpList, chaos.OpRenew, chaos.OpPing}}
		})),
		"Plan.Rules[0].Budget.Total: 3 is more than the plan's, 2":                   {Budget: chaos.Budget{Total: 2}, Rules: []chaos.Rule{with(func(r *chaos.Rule) { r.Budget.Total = 3 })}},
		"Plan.Rules[0].Budget.PerName: 2 has no effect beside Total 2":               rules(with(func(r *chaos.Rule) { r.Budget = chaos.Budget{Total: 2, PerName: 2} })),
		"Plan.Rules[0].When.Sequence: it is longer than First, 1":                    rules(with(func(r *chaos.Rule) { r.When = chaos.Policy{First: 1, Sequence: "x.x"} })),
		"Plan.Rules[0]: the provider has no wait, so this rule never fires":          rules(chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultWakeupsLost}}),
		"Plan.Rules[0].Match.Ops: the provider has no list":                          rules(with(func(r *chaos.Rule) { r.Match.Ops = []chaos.Op{chaos.OpRenew, chaos.OpList} })),
		`Plan.Rules[0].Match.Owners: inspect has the owner of Options, "me", so thi`: rules(with(func(r *chaos.Rule) { r.Match = chaos.Match{Ops: []chaos.Op{chaos.OpInspect}, Owners: []string{"you"}} })),
	} {
		require.NoError(t, plan.Validate(), want)
		p, err := chaos.Wrap(withoutAbilities{memlease.New(memlease.Options{})}, plan, chaos.Options{Owner: "me"})
		require.NoError(t, err)
		warnings := p.Warnings()
		assert.Len(t, warnings, 1+strings.Count(want, "has no name"), "%q", warnings) // the other warning: the provider has no list and no ping
		assert.Contains(t, strings.Join(warnings, "\n"), want)
		require.NoError(t, p.Close())
	}
	for _, name := range chaos.Names()[1:] {
		plan, err := chaos.Named(name, 7)
		require.NoError(t, err)
		if name != "none" {
			assert.Empty(t, plan.Warnings(), name)
		}
	}
}

// withoutAbilities is a provider without optional abilities.
type withoutAbilities struct{ leasing.Provider }

func (withoutAbilities) As(any) bool { return false }

// TestSummary checks the words for each setting.
func TestSummary(t *testing.T) {
	plan := chaos.Plan{Name: "monday", Seed: 7, Budget: chaos.Budget{Total: 9}, Rules: []chaos.Rule{
		{Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 20 * time.Millisecond, Jitter: 80 * time.Millisecond, After: true, Heedless: true}},
		{
			Name: "failover", Fault: chaos.Fault{Kind: chaos.FaultReplyLost}, When: chaos.Policy{From: 10 * second, To: 12 * second, Repeat: 20 * second},
			Match: chaos.Match{Ops: []chaos.Op{chaos.OpRenew, chaos.OpAcquire, chaos.OpRelease}, Names: []string{"jobs/*"}, Owners: []string{"a", "b"}, MinAttempt: 2, MaxAttempt: 3},
		},
		{Fault: chaos.Fault{Kind: chaos.FaultThrottle, RetryAfter: second}, When: chaos.Policy{Skip: 1, First: 2, Every: 3, Sequence: "..x", Probability: .5, PerName: true, Custom: coin{}}, Match: chaos.Match{OnlyOnRetry: true}},
		{Fault: chaos.Fault{Kind: chaos.FaultError, Failure: chaos.FailureDenied}, Budget: chaos.Budget{Total: 3, PerName: 1}, Rate: chaos.Rate{Count: 5, Per: time.Minute}},
		{Fault: chaos.Fault{Kind: chaos.FaultBroken, RunOut: true}, Disabled: true},
		{Fault: chaos.Fault{Kind: chaos.FaultHang}, When: chaos.Policy{From: second}},
		{Fault: chaos.Fault{Kind: chaos.FaultWakeupsLost}},
		{Fault: chaos.Fault{Kind: chaos.FaultCustom, Custom: diskFull{}}},
	}}
	assert.Equal(t, strings.Join([]string{
		`chaos: plan "monday", seed 7: 8 rules, at most 9 faults`,
		`  delay: each operation waits for 20ms to 100ms after its effect beyond its context`,
		`  failover: each renew, acquire or release of jobs/* by a or b in attempts 2 to 3 loses its reply, from 10s to 12s, again every 20s`,
		`  throttle: each operation in attempts from 2 is throttled with a pause of 1s, after the first 1, in 2 operations at most, in one of every 3, in the sequence ..x, counted for each name, with probability 0.5, picked by chaos_test.coin`,
		`  error: each operation fails as denied, at most 3 faults, at most 1 for a name, at most 5 in 1m0s`,
		`  broken: each acquire, renew, release, break, inspect, history, wait or waiters has its lease broken and left to run out, once it is enabled`,
		`  hang: each operation hangs until its context ends, from 1s to the end`,
		`  wakeups_lost: each wait loses its wake-ups`,
		`  custom: each operation meets chaos_test.diskFull`,
	}, "\n"), plan.String())
	assert.Equal(t, `error: each operation fails`, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultError}}.String())
}
