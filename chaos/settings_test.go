package chaos_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/chaos"
)

// leaves returns the paths of all fields below a type.
func leaves(t reflect.Type, path string) []string {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return []string{path}
	}
	var all []string
	for _, field := range reflect.VisibleFields(t) {
		all = append(all, leaves(field.Type, path+"."+field.Name)...)
	}
	return all
}

// at returns a field of a plan or of its first rule.
func at(plan *chaos.Plan, path string) reflect.Value {
	value := reflect.ValueOf(plan).Elem()
	for field := range splitPath(path) {
		value = value.FieldByName(field)
		if value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.Struct {
			value = value.Index(0)
		}
	}
	return value
}

func splitPath(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for start, i := 1, 1; i <= len(path); i++ {
			if i == len(path) || path[i] == '.' {
				if !yield(path[start:i]) {
					return
				}
				start = i + 1
			}
		}
	}
}

// TestTrap_T52_EachSettingIsUsed changes one field at a time, in a plan where the field
// matters, and checks that callers, observers or the report see a change. The test of a field
// without an entry here fails.
func TestTrap_T52_EachSettingIsUsed(t *testing.T) {
	lost := chaos.Fault{Kind: chaos.FaultRequestLost}
	settings := map[string]struct {
		rule  chaos.Rule
		value any
	}{
		".Name":           {chaos.Rule{Fault: lost}, "another"},
		".Seed":           {chaos.Rule{Fault: lost, When: chaos.Policy{Probability: .5}}, uint64(9)},
		".Budget.Total":   {chaos.Rule{Fault: lost}, 5},
		".Budget.PerName": {chaos.Rule{Fault: lost}, 5},
		".Rate.Count":     {chaos.Rule{Fault: lost}, 2},
		".Rate.Per":       {chaos.Rule{Fault: lost}, 3 * time.Second},

		".Rules.Name":     {chaos.Rule{Fault: lost}, "another"},
		".Rules.Disabled": {chaos.Rule{Fault: lost}, true},

		".Rules.Fault.Kind":       {chaos.Rule{Fault: lost}, chaos.FaultReplyLost},
		".Rules.Fault.Delay":      {chaos.Rule{Fault: lost}, 50 * time.Millisecond},
		".Rules.Fault.Jitter":     {chaos.Rule{Fault: lost}, 50 * time.Millisecond},
		".Rules.Fault.After":      {chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultError}}, true},
		".Rules.Fault.Heedless":   {chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 20 * time.Second, After: true}}, true},
		".Rules.Fault.RetryAfter": {chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultThrottle}}, time.Second},
		".Rules.Fault.Failure":    {chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultError}}, chaos.FailureDenied},
		".Rules.Fault.RunOut":     {chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultBroken}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpInspect}}}, true},

		".Rules.Fault.Custom": {chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultCustom, Custom: diskFull{}}}, passing},

		".Rules.When.From":        {chaos.Rule{Fault: lost}, time.Second},
		".Rules.When.To":          {chaos.Rule{Fault: lost}, time.Second},
		".Rules.When.Repeat":      {chaos.Rule{Fault: lost, When: chaos.Policy{To: time.Second}}, 2 * time.Second},
		".Rules.When.Skip":        {chaos.Rule{Fault: lost}, 5},
		".Rules.When.First":       {chaos.Rule{Fault: lost}, 5},
		".Rules.When.Every":       {chaos.Rule{Fault: lost}, 3},
		".Rules.When.Sequence":    {chaos.Rule{Fault: lost}, "x.x"},
		".Rules.When.Probability": {chaos.Rule{Fault: lost}, .5},
		".Rules.When.PerName":     {chaos.Rule{Fault: lost, When: chaos.Policy{First: 2}}, true},
		".Rules.When.Custom":      {chaos.Rule{Fault: lost}, coin{}},

		".Rules.Match.Ops":    {chaos.Rule{Fault: lost}, []chaos.Op{chaos.OpPing}},
		".Rules.Match.Names":  {chaos.Rule{Fault: lost}, []string{"*2"}},
		".Rules.Match.Owners": {chaos.Rule{Fault: lost}, []string{"*2"}},

		".Rules.Match.MinAttempt":  {chaos.Rule{Fault: lost}, 2},
		".Rules.Match.MaxAttempt":  {chaos.Rule{Fault: lost}, 1},
		".Rules.Match.OnlyOnRetry": {chaos.Rule{Fault: lost}, true},

		".Rules.Budget.Total":   {chaos.Rule{Fault: lost}, 5},
		".Rules.Budget.PerName": {chaos.Rule{Fault: lost}, 5},
		".Rules.Rate.Count":     {chaos.Rule{Fault: lost}, 2},
		".Rules.Rate.Per":       {chaos.Rule{Fault: lost}, 3 * time.Second},
	}
	for _, path := range leaves(reflect.TypeFor[chaos.Plan](), "") {
		t.Run(path, func(t *testing.T) {
			setting, ok := settings[path]
			require.True(t, ok, "no test says what this field does")
			plan := chaos.Plan{Seed: 1, Rules: []chaos.Rule{setting.rule}}
			if path == ".Rate.Count" || path == ".Rate.Per" {
				plan.Rate = chaos.Rate{Count: 1, Per: time.Second} // Count and Per must be set together
			}
			if path == ".Rules.Rate.Count" || path == ".Rules.Rate.Per" {
				plan.Rules[0].Rate = chaos.Rate{Count: 1, Per: time.Second}
			}
			without, _ := scenario(t, plan)
			plan.Rules = []chaos.Rule{plan.Rules[0]}
			at(&plan, path).Set(reflect.ValueOf(setting.value))
			with, _ := scenario(t, plan)
			if without == with {
				t.Errorf("%v changes nothing", setting.value)
			}
		})
	}
}
