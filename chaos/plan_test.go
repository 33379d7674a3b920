package chaos_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func ruleOf(change func(r *chaos.Rule)) chaos.Plan {
	r := chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultRequestLost}}
	change(&r)
	return chaos.Plan{Rules: []chaos.Rule{{Fault: chaos.Fault{Kind: chaos.FaultThrottle}}, r}}
}

// TestWhatCantWorkIsNamed has one plan for each mistake.
func TestWhatCantWorkIsNamed(t *testing.T) {
	fault := func(f chaos.Fault) chaos.Plan { return ruleOf(func(r *chaos.Rule) { r.Fault = f }) }
	when := func(p chaos.Policy) chaos.Plan { return ruleOf(func(r *chaos.Rule) { r.When = p }) }
	match := func(m chaos.Match) chaos.Plan { return ruleOf(func(r *chaos.Rule) { r.Match = m }) }
	limits := func(b chaos.Budget, rate chaos.Rate) chaos.Plan {
		return ruleOf(func(r *chaos.Rule) { r.Budget, r.Rate = b, rate })
	}
	for _, test := range []struct {
		plan  chaos.Plan
		field string
	}{
		{fault(chaos.Fault{}), "Fault.Kind"},
		{fault(chaos.Fault{Kind: "explosion"}), "Fault.Kind"},
		{fault(chaos.Fault{Kind: chaos.FaultRequestLost, Delay: -1}), "Fault.Delay"},
		{fault(chaos.Fault{Kind: chaos.FaultError, Delay: 1}), "Fault.Delay"},
		{fault(chaos.Fault{Kind: chaos.FaultDelay}), "Fault.Delay"},
		{fault(chaos.Fault{Kind: chaos.FaultDeliveredLate}), "Fault.Delay"},
		{fault(chaos.Fault{Kind: chaos.FaultRequestLost, Jitter: -1}), "Fault.Jitter"},
		{fault(chaos.Fault{Kind: chaos.FaultStaleRead, Jitter: 1}), "Fault.Jitter"},
		{fault(chaos.Fault{Kind: chaos.FaultThrottle, After: true}), "Fault.After"},
		{fault(chaos.Fault{Kind: chaos.FaultReplyLost, After: true}), "Fault.After"},
		{fault(chaos.Fault{Kind: chaos.FaultThrottle, RetryAfter: -1}), "Fault.RetryAfter"},
		{fault(chaos.Fault{Kind: chaos.FaultError, RetryAfter: 1}), "Fault.RetryAfter"},
		{fault(chaos.Fault{Kind: chaos.FaultError, RunOut: true}), "Fault.RunOut"},
		{fault(chaos.Fault{Kind: chaos.FaultHang, Failure: chaos.FailureDenied}), "Fault.Failure"},
		{fault(chaos.Fault{Kind: chaos.FaultError, Failure: "tired"}), "Fault.Failure"},
		{fault(chaos.Fault{Kind: chaos.FaultError, Failure: chaos.FailureDenied, After: true}), "Fault.Failure"},
		{when(chaos.Policy{From: -1}), "When.From"},
		{when(chaos.Policy{From: 2, To: 2}), "When.To"},
		{when(chaos.Policy{To: -1}), "When.To"},
		{when(chaos.Policy{Repeat: 5}), "When.Repeat"},
		{when(chaos.Policy{To: 6, Repeat: 5}), "When.Repeat"},
		{when(chaos.Policy{Skip: -1}), "When.Skip"},
		{when(chaos.Policy{First: -1}), "When.First"},
		{when(chaos.Policy{Every: -1}), "When.Every"},
		{when(chaos.Policy{Sequence: "x-"}), "When.Sequence"},
		{when(chaos.Policy{Sequence: ".."}), "When.Sequence"},
		{when(chaos.Policy{Probability: -.1}), "When.Probability"},
		{when(chaos.Policy{Probability: 1.1}), "When.Probability"},
		{when(chaos.Policy{Probability: math.NaN()}), "When.Probability"},
		{when(chaos.Policy{PerName: true, Probability: .5}), "When.PerName"},
		{when(chaos.Policy{First: 1, Every: 2}), "When.Every"},
		{when(chaos.Policy{Sequence: "x.x.", Every: 2}), "When.Every"},
		{when(chaos.Policy{Sequence: "...x", Every: 2, First: 3}), "When.Every"},
		{match(chaos.Match{Ops: []chaos.Op{chaos.OpAcquire, "dance"}}), "Match.Ops[1]"},
		{match(chaos.Match{Ops: []chaos.Op{chaos.OpList, chaos.OpPing}, Names: []string{"*"}}), "Match.Names"},
		{ruleOf(func(r *chaos.Rule) { r.Fault.Kind, r.Match.Ops = chaos.FaultWakeupsLost, []chaos.Op{chaos.OpPing} }), "Match.Ops[0]"},
		{match(chaos.Match{Names: []string{""}}), "Match.Names[0]"},
		{match(chaos.Match{Owners: []string{"a", ""}}), "Match.Owners[1]"},
		{fault(chaos.Fault{Kind: chaos.FaultCustom}), "Fault.Custom"},
		{fault(chaos.Fault{Kind: chaos.FaultError, Custom: diskFull{}}), "Fault.Custom"},
		{match(chaos.Match{MinAttempt: -1}), "Match.MinAttempt"},
		{match(chaos.Match{MaxAttempt: -1}), "Match.MaxAttempt"},
		{match(chaos.Match{MinAttempt: 3, MaxAttempt: 2}), "Match.MaxAttempt"},
		{match(chaos.Match{OnlyOnRetry: true, MaxAttempt: 1}), "Match.MaxAttempt"},
		{ruleOf(func(r *chaos.Rule) { r.Fault.Kind, r.Match.OnlyOnRetry = chaos.FaultPartitioned, true }), "Match.MinAttempt"},
		{ruleOf(func(r *chaos.Rule) { r.Fault.Kind, r.Match.MaxAttempt = chaos.FaultPartitioned, 2 }), "Match.MinAttempt"},
		{ruleOf(func(r *chaos.Rule) { r.Fault.Kind, r.When.Custom = chaos.FaultPartitioned, coin{} }), "When"},
		{limits(chaos.Budget{Total: -1}, chaos.Rate{}), "Budget.Total"},
		{limits(chaos.Budget{PerName: -1}, chaos.Rate{}), "Budget.PerName"},
		{limits(chaos.Budget{}, chaos.Rate{Count: -1, Per: 1}), "Rate.Count"},
		{limits(chaos.Budget{}, chaos.Rate{Count: 1 << 20, Per: 1}), "Rate.Count"},
		{limits(chaos.Budget{}, chaos.Rate{Per: 1}), "Rate.Count"},
		{limits(chaos.Budget{}, chaos.Rate{Count: 1}), "Rate.Per"},
		{limits(chaos.Budget{}, chaos.Rate{Count: 1, Per: -1}), "Rate.Per"},
		{ruleOf(func(r *chaos.Rule) { r.Fault.Kind, r.When.First = chaos.FaultPartitioned, 1 }), "When"},
		{ruleOf(func(r *chaos.Rule) { r.Fault.Kind, r.Budget.Total = chaos.FaultPartitioned, 1 }), "Budget"},
		{ruleOf(func(r *chaos.Rule) { r.Fault.Kind, r.Rate = chaos.FaultPartitioned, chaos.Rate{Count: 1, Per: 1} }), "Budget"},
	} {
		_, err := chaos.Wrap(memlease.New(memlease.Options{}), test.plan, chaos.Options{})
		var invalid *leasing.InvalidError
		require.ErrorAs(t, err, &invalid, "%s: %+v", test.field, test.plan)
		assert.Equal(t, "Plan.Rules[1]."+test.field, invalid.Field)
		assert.NotEmpty(t, invalid.Want)
	}
}

// TestWhatJustWorks checks valid plans at the bounds.
func TestWhatJustWorks(t *testing.T) {
	lost := chaos.Fault{Kind: chaos.FaultRequestLost}
	for what, rule := range map[string]chaos.Rule{
		"windows without a gap":   {Fault: lost, When: chaos.Policy{From: 1, To: 5, Repeat: 5}},
		"always":                  {Fault: lost, When: chaos.Policy{Probability: 1}},
		"skipped by name":         {Fault: lost, When: chaos.Policy{PerName: true, Skip: 1}},
		"the first by name":       {Fault: lost, When: chaos.Policy{PerName: true, First: 1}},
		"each nth by name":        {Fault: lost, When: chaos.Policy{PerName: true, Every: 2}},
		"a sequence by name":      {Fault: lost, When: chaos.Policy{PerName: true, Sequence: "x"}},
		"as many as are kept":     {Fault: lost, Rate: chaos.Rate{Count: 1 << 16, Per: 1}},
		"a delay that is random":  {Fault: chaos.Fault{Kind: chaos.FaultDelay, Jitter: 1}},
		"a partition with an end": {Fault: chaos.Fault{Kind: chaos.FaultPartitioned}, When: chaos.Policy{From: 1, To: 2, Repeat: 3}},
	} {
		require.NoError(t, chaos.Plan{Rules: []chaos.Rule{rule}}.Validate(), what)
	}
}

func TestWhatCantWorkOutsideOfRules(t *testing.T) {
	var invalid *leasing.InvalidError
	require.ErrorAs(t, chaos.Plan{Budget: chaos.Budget{Total: -1}}.Validate(), &invalid)
	assert.Equal(t, "Plan.Budget.Total", invalid.Field)
	require.ErrorAs(t, chaos.Plan{Rate: chaos.Rate{Per: 1}}.Validate(), &invalid)
	assert.Equal(t, "Plan.Rate.Count", invalid.Field)
	twice := chaos.Plan{Rules: []chaos.Rule{{Name: "a", Fault: chaos.Fault{Kind: chaos.FaultError}}, {Name: "a", Fault: chaos.Fault{Kind: chaos.FaultError}}}}
	require.ErrorAs(t, twice.Validate(), &invalid)
	assert.Equal(t, "Plan.Rules[1].Name", invalid.Field)
	_, err := chaos.Wrap(nil, chaos.Plan{}, chaos.Options{})
	require.ErrorIs(t, err, leasing.ErrInvalid)
}

func TestRulesGetNames(t *testing.T) {
	fault := chaos.Fault{Kind: chaos.FaultError}
	p, err := chaos.Wrap(memlease.New(memlease.Options{}), chaos.Plan{Rules: []chaos.Rule{{Fault: fault}, {Fault: fault}, {Name: "error-2", Fault: fault}, {Name: "mine", Fault: fault}}}, chaos.Options{})
	require.NoError(t, err)
	defer p.Close()
	var names []string
	for _, r := range p.Plan().Rules {
		names = append(names, r.Name)
	}
	assert.Equal(t, []string{"error", "error-3", "error-2", "mine"}, names)
}

func TestJSONOfAPlan(t *testing.T) {
	plan, err := chaos.ParsePlan([]byte(`{
		"name": "monday",
		"seed": 7,
		"rules": [
			{"fault": {"kind": "delay", "delay": "10ms", "jitter": "1.5s"}, "when": {"probability": 0.5, "from": "2s", "to": "3s", "repeat": "10s"}},
			{"name": "n", "fault": {"kind": "error", "failure": "denied"}, "when": {"sequence": "x.xx", "skip": 2, "first": 9, "every": 3, "per_name": true},
			 "match": {"ops": ["renew"], "names": ["jobs/*"], "owners": ["a"], "min_attempt": 2, "max_attempt": 4, "only_on_retry": true}, "budget": {"total": 3, "per_name": 1}, "rate": {"count": 5, "per": "1m"}, "disabled": true},
			{"fault": {"kind": "throttle", "retry_after": "2s"}, "when": {"every": 2}},
			{"fault": {"kind": "broken", "run_out": true, "after": true}}
		],
		"budget": {"total": 100},
		"rate": {"count": 10, "per": "1s"}
	}`))
	require.NoError(t, err)
	assert.Equal(t, chaos.Plan{
		Name: "monday", Seed: 7,
		Rules: []chaos.Rule{
			{Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 10 * time.Millisecond, Jitter: 1500 * time.Millisecond}, When: chaos.Policy{Probability: .5, From: 2 * time.Second, To: 3 * time.Second, Repeat: 10 * time.Second}},
			{
				Name: "n", Fault: chaos.Fault{Kind: chaos.FaultError, Failure: chaos.FailureDenied}, When: chaos.Policy{Sequence: "x.xx", Skip: 2, First: 9, Every: 3, PerName: true},
				Match:  chaos.Match{Ops: []chaos.Op{chaos.OpRenew}, Names: []string{"jobs/*"}, Owners: []string{"a"}, MinAttempt: 2, MaxAttempt: 4, OnlyOnRetry: true},
				Budget: chaos.Budget{Total: 3, PerName: 1}, Rate: chaos.Rate{Count: 5, Per: time.Minute}, Disabled: true,
			},
			{Fault: chaos.Fault{Kind: chaos.FaultThrottle, RetryAfter: 2 * time.Second}, When: chaos.Policy{Every: 2}},
			{Fault: chaos.Fault{Kind: chaos.FaultBroken, RunOut: true, After: true}},
		},
		Budget: chaos.Budget{Total: 100}, Rate: chaos.Rate{Count: 10, Per: time.Second},
	}, plan)
}

// TestJSONErrors checks that an error names the place and the kind of the mistake.
func TestJSONErrors(t *testing.T) {
	for text, want := range map[string][]string{
		`{"ruels": []}`:                      {"Plan", `unknown field "ruels"`},
		`{"rules": [{"fault": {}, "x": 1}]}`: {"Plan.Rules[0]", `unknown field "x"`},
		`{"rules": [{"fault": {"kind": "delay"}}, {"fault": {"dealy": "1s"}}]}`: {"Plan.Rules[1].Fault", `unknown field "dealy"`},
		`{"rules": [{"fault": {"kind": "delay", "delay": "soon"}}]}`:            {"Plan.Rules[0].Fault.delay", "soon", "1.5s"},
		`{"rules": [{"fault": {"kind": "delay", "delay": ""}}]}`:                {"Plan.Rules[0].Fault.delay", "1.5s"},
		`{"rules": [{"fault": {"kind": "delay"}, "when": {"to": "5"}}]}`:        {"Plan.Rules[0].When.to", "1.5s"},
		`{"rules": [{"fault": {"kind": "delay"}, "rate": {"per": "5"}}]}`:       {"Plan.Rules[0].Rate.per", "1.5s"},
		`{"rules": [{"fault": {"kind": "delay", "delay": 5}}]}`:                 {"Plan.Rules[0].Fault.delay", `number`},
		`{"rules": [{"fault": {"kind": "delay"}, "when": {"prob": 1}}]}`:        {"Plan.Rules[0].When", `unknown field "prob"`},
		`{"rules": [{"fault": {"kind": "delay"}, "match": {"op": "renew"}}]}`:   {"Plan.Rules[0].Match", `unknown field "op"`},
		`{"rules": [{"fault": {"kind": "delay"}, "match": {"ops": "renew"}}]}`:  {"Plan.Rules[0].Match.ops", "string"},
		`{"rules": [{"fault": {"kind": "delay"}, "budget": {"total": "x"}}]}`:   {"Plan.Rules[0].Budget.total", "string"},
		`{"rules": [{"fault": {"kind": "delay"}, "rate": {"per": true}}]}`:      {"Plan.Rules[0].Rate.per", `bool`},
		`{"rate": {"pro": "1s"}}`:             {"Plan.Rate", `unknown field "pro"`},
		`{"seed": "seven"}`:                   {"Plan.seed", "string", "a whole number"},
		`{"seed": 1, "rules": [], "seed": 2}`: {"Plan.seed", "twice"},
		`{"seed": 1, "Seed": 2}`:              {"Plan.Seed", "twice"},
		`{"rules": [{"fault": {"kind": "delay", "delay": "1s", "kind": "error"}}]}`:                            {"Plan.Rules[0].Fault.kind", "twice"},
		`{"rules": [{"fault": {"kind": "error"}, "when": {"every": 2}, "when": {"every": 3}}]}`:                {"Plan.Rules[0].when", "twice"},
		`{"rules": [{"fault": {"kind": "error"}, "when": {"probability": 0}}]}`:                                {"Plan.Rules[0].When.probability", "leave it out for always"},
		`{"rules": [{"fault": {"kind": "error"}, "when": {"probability": "x"}}]}`:                              {"Plan.Rules[0].When.probability", "a number"},
		`{"rules": [{"fault": {"kind": "error"}}, {"fault": {"kind": "hang"}, "when": {"probability": 0.5}}]}`: {"Plan.Rules[1]", "Plan.Rules[0], error, does not take first"},
		`{"rules": [{"fault": {"kind": "throttle"}}, {"fault": {"kind": "explosion"}}]}`:                       {"Plan.Rules[1].Fault.Kind", "explosion", "delivered_late"},
		`{"rules": [{"fault": {"kind": "custom"}}]}`:                                                           {"Plan.Rules[0].Fault.Custom", "in Go only"},
		`{"rules": [{"fault": {"kind": "error", "custom": 1}}]}`:                                               {"Plan.Rules[0].Fault", `unknown field "custom"`},
		`{"rules": [{"fault": {"kind": "error", "-": 1}}]}`:                                                    {"Plan.Rules[0].Fault", `unknown field "-"`},
		`{"rules": [{"fault": {"kind": "error"}, "match": {"min_attempt": 1.5}}]}`:                             {"Plan.Rules[0].Match.min_attempt", "a whole number"},
		`{`:    {"Plan", "unexpected end"},
		`[]`:   {"Plan", "array"},
		`null`: {"Plan", "null"},
	} {
		_, err := chaos.ParsePlan([]byte(text))
		var invalid *leasing.InvalidError
		if assert.ErrorAs(t, err, &invalid, text) {
			assert.Equal(t, want[0], invalid.Field, "%s: %v", text, err)
			for _, part := range want[1:] {
				assert.ErrorContains(t, err, part, text)
			}
		}
	}
}

func TestJSONLeavesOutWhatStays(t *testing.T) {
	rule := chaos.Rule{Fault: chaos.Fault{Delay: time.Second, After: true}, When: chaos.Policy{To: time.Minute}, Rate: chaos.Rate{Per: time.Hour}}
	require.NoError(t, json.Unmarshal([]byte(`{"fault": {"kind": "delay"}, "when": {"skip": 1}, "rate": {"count": 1}}`), &rule))
	assert.Equal(t, chaos.Rule{
		Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: time.Second, After: true}, When: chaos.Policy{To: time.Minute, Skip: 1}, Rate: chaos.Rate{Count: 1, Per: time.Hour},
	}, rule)
}

func TestReadyMadePlansWork(t *testing.T) {
	require.Len(t, chaos.Names(), 9)
	for _, name := range chaos.Names() {
		plan, err := chaos.Named(name, 7)
		require.NoError(t, err)
		assert.Equal(t, name, plan.Name)
		assert.EqualValues(t, 7, plan.Seed)
		require.NoError(t, plan.Validate(), name)
		text, err := json.Marshal(plan)
		require.NoError(t, err)
		again, err := chaos.ParsePlan(text)
		require.NoError(t, err, "%s", text)
		assert.Equal(t, plan, again)
	}
	_, err := chaos.Named("nonsense", 1)
	require.ErrorIs(t, err, leasing.ErrInvalid)
	require.ErrorContains(t, err, "lost-replies")
}

// A rule whose operations are all taken by an earlier rule would never fire.
func TestRulesThatNeverHappenAreRefused(t *testing.T) {
	all := chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultError}}
	with := func(change func(*chaos.Rule)) chaos.Rule {
		r := all
		change(&r)
		return r
	}
	renew := with(func(r *chaos.Rule) { r.Match.Ops = []chaos.Op{chaos.OpRenew} })
	jobs := with(func(r *chaos.Rule) { r.Match.Names = []string{"jobs/*"} })
	daily := with(func(r *chaos.Rule) { r.Match.Names = []string{"jobs/daily*", "jobs/x"} })
	partition := chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultPartitioned}}
	for name, rules := range map[string][]chaos.Rule{
		"the same twice": {all, all}, "one operation of all": {all, renew}, "a name of all": {all, jobs}, "names of a pattern": {jobs, daily},
		"anything after a partition": {all, partition}, "always, in other words": {with(func(r *chaos.Rule) { r.When.Probability = 1 }), renew},
		"attempts of all":   {with(func(r *chaos.Rule) { r.Match.OnlyOnRetry = true }), with(func(r *chaos.Rule) { r.Match.MinAttempt = 3 })},
		"not the neighbour": {all, {Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 1}}, renew},
	} {
		err := parsed(t, rules)
		require.ErrorIs(t, err, leasing.ErrInvalid, name)
		require.ErrorContains(t, err, "would never fire", name)
	}
	for name, rules := range map[string][]chaos.Rule{
		"the rest": {renew, all}, "other names": {jobs, renew}, "a larger pattern": {daily, jobs}, "a name of nothing": {jobs, {Fault: chaos.Fault{Kind: chaos.FaultError}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpPing}}}},
		"a part": {with(func(r *chaos.Rule) { r.When.Probability = .5 }), all}, "so many": {with(func(r *chaos.Rule) { r.Budget.Total = 1 }), all},
		"other attempts": {with(func(r *chaos.Rule) { r.Match.OnlyOnRetry = true }), all},
		"so often":       {with(func(r *chaos.Rule) { r.Rate = chaos.Rate{Count: 1, Per: 1} }), all}, "for a time": {with(func(r *chaos.Rule) { r.When.To = 1 }), all},
		"delays add up":      {all, {Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 1}}},
		"switched on":        {with(func(r *chaos.Rule) { r.Disabled = true }), all},
		"a batch, its items": {all, {Fault: chaos.Fault{Kind: chaos.FaultHang}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpRenewBatch}}}},
		"with an answer":     {{Fault: chaos.Fault{Kind: chaos.FaultStaleRead}}, {Fault: chaos.Fault{Kind: chaos.FaultHang}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpInspect}}}},
	} {
		require.NoError(t, parsed(t, rules), name)
	}
	require.NoError(t, chaos.Plan{Rules: []chaos.Rule{all, all}}.Validate(), "in Go one may be switched off")
}

// parsed writes rules as JSON and parses the JSON.
func parsed(t *testing.T, rules []chaos.Rule) error {
	text, err := json.Marshal(chaos.Plan{Rules: rules})
	require.NoError(t, err)
	_, err = chaos.ParsePlan(text)
	return err
}

// plans draws plans, most of them invalid.
func plans() *rapid.Generator[chaos.Plan] {
	return rapid.Custom(func(t *rapid.T) chaos.Plan {
		duration := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(-int64(time.Second), int64(time.Hour)).Draw(t, "duration"))
		})
		number := rapid.IntRange(-1, 100)
		rule := rapid.Custom(func(t *rapid.T) chaos.Rule {
			return chaos.Rule{
				Name: rapid.SampledFrom([]string{"", "a", "b", "ü"}).Draw(t, "name"),
				Fault: chaos.Fault{
					Kind:  chaos.FaultKind(rapid.SampledFrom([]string{"delay", "error", "broken", "stale_read", "?"}).Draw(t, "kind")),
					Delay: duration.Draw(t, "delay"), Jitter: duration.Draw(t, "jitter"), After: rapid.Bool().Draw(t, "after"),
					RetryAfter: duration.Draw(t, "retry"), Failure: chaos.Failure(rapid.SampledFrom([]string{"", "denied"}).Draw(t, "failure")), RunOut: rapid.Bool().Draw(t, "run out"),
				},
				When: chaos.Policy{
					From: duration.Draw(t, "from"), To: duration.Draw(t, "to"), Repeat: duration.Draw(t, "repeat"),
					Skip: number.Draw(t, "skip"), First: number.Draw(t, "first"), Every: number.Draw(t, "every"),
					Sequence: rapid.StringMatching(`[x.]*`).Draw(t, "sequence"), Probability: rapid.Float64Range(0, 1).Draw(t, "p"), PerName: rapid.Bool().Draw(t, "per name"),
				},
				Match: chaos.Match{
					Names:      rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "names"),
					MinAttempt: number.Draw(t, "min"), MaxAttempt: number.Draw(t, "max"), OnlyOnRetry: rapid.Bool().Draw(t, "only on retry"),
				},
				Budget:   chaos.Budget{Total: number.Draw(t, "total"), PerName: number.Draw(t, "per name")},
				Rate:     chaos.Rate{Count: number.Draw(t, "count"), Per: duration.Draw(t, "per")},
				Disabled: rapid.Bool().Draw(t, "disabled"),
			}
		})
		return chaos.Plan{Seed: rapid.Uint64().Draw(t, "seed"), Rules: rapid.SliceOfN(rule, 1, 4).Draw(t, "rules"), Rate: chaos.Rate{Per: duration.Draw(t, "per")}}
	})
}

func TestJSONKeepsEveryPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := plans().Draw(t, "plan")
		text, err := json.Marshal(plan)
		require.NoError(t, err)
		var again chaos.Plan
		require.NoError(t, json.Unmarshal(text, &again), "%s", text)
		require.Equal(t, plan, again)
	})
}

// FuzzParsePlan looks for JSON that makes ParsePlan panic, or that ParsePlan accepts and Wrap
// refuses.
func FuzzParsePlan(f *testing.F) {
	for _, name := range chaos.Names() {
		plan, err := chaos.Named(name, 7)
		require.NoError(f, err)
		text, err := json.Marshal(plan)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Add([]byte(`{"rules":[null,{"fault":null,"when":null}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		plan, err := chaos.ParsePlan(text)
		if err != nil {
			require.True(t, errors.Is(err, leasing.ErrInvalid), "%v", err)
			return
		}
		p, err := chaos.Wrap(memlease.New(memlease.Options{}), plan, chaos.Options{})
		require.NoError(t, err)
		require.NoError(t, p.Close())
	})
}
