package torture

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
)

// TestVirtual is Test in virtual time: each run is in a bubble of testing/synctest, over a
// backend that is made in it. Options.Open is not needed. If a promise was broken it looks for
// the smallest run that breaks it too, of fewer rules, workers and names and in less time,
// and prints the Go test that repeats it.
//
//	torture.TestVirtual(t, func() leasing.Provider { return memlease.New(memlease.Options{}) }, torture.Options{Plan: plan, For: time.Minute})
func TestVirtual(t *testing.T, backend func() leasing.Provider, options Options) *Report {
	t.Helper()
	report := runVirtual(t, backend, options)
	switch err := report.Err(); {
	case err == nil:
		t.Logf("\n%s", report)
	case report.OK(): // undecided
		t.Error(err)
	default:
		options.Seed = report.Seed
		broken := report.Violations[0].Check
		options = shrink(options, func(o Options) bool {
			violates := func(v Violation) bool { return v.Check == broken }
			return slices.ContainsFunc(runVirtual(t, backend, o).Violations, violates)
		})
		t.Errorf("%v\nThe smallest run that breaks %q:\n\n%s", err, broken, options.goTest())
	}
	return report
}

func runVirtual(t *testing.T, backend func() leasing.Provider, options Options) (report *Report) {
	synctest.Test(t, func(t *testing.T) {
		options.Open = Share(backend())
		var err error
		if report, err = Run(t.Context(), options); err != nil {
			t.Fatal(err)
		}
	})
	return report
}

// shrink makes a run smaller for as long as it fails.
func shrink(o Options, fails func(Options) bool) Options {
	try := func(change func(*Options)) bool {
		smaller := o
		change(&smaller)
		if !fails(smaller) {
			return false
		}
		o = smaller
		return true
	}
	try(func(o *Options) { o.Repeatable = true })
	try(func(o *Options) { o.Plan.Rules = nil })
	try(func(o *Options) { // chance goes by the names, which should stay as they are
		o.Plan.Rules = slices.Clone(o.Plan.Rules)
		for i := range o.Plan.Rules {
			if r := &o.Plan.Rules[i]; r.Name == "" {
				r.Name = fmt.Sprintf("%s %d", r.Fault.Kind, i)
			}
		}
	})
	complete, _ := o.withDefaults()
	o.Workers, o.Names, o.For = complete.Workers, complete.Names, complete.For
	for o.For > time.Second && try(func(o *Options) { o.For /= 2 }) {
	}
	for _, n := range []func(*Options) *int{func(o *Options) *int { return &o.Names }, func(o *Options) *int { return &o.Workers }} {
		for *n(&o) > 1 && (try(func(o *Options) { *n(o) /= 2 }) || try(func(o *Options) { *n(o)-- })) {
		}
	}
	for i := len(o.Plan.Rules) - 1; i >= 0; i-- {
		try(func(o *Options) { o.Plan.Rules = slices.Delete(slices.Clone(o.Plan.Rules), i, i+1) })
	}
	return o
}

// goTest is the Go test that makes the run. What is a function it can't say.
func (o Options) goTest() string {
	return fmt.Sprintf(`func TestAgain(t *testing.T) {
%s	torture.TestVirtual(t, backend, torture.Options{
		Plan: plan,
%s		Manager: leasing.Options{
%s			Tuning: leasing.Tuning{
%s			},
		},
	})
}
`, goPlan(o.Plan), fields("\t\t", o), fields("\t\t\t", o.Manager), fields("\t\t\t\t", o.Manager.Tuning))
}

// goPlan is the Go code that makes a plan. A plan with code of the test's own is described.
func goPlan(p chaos.Plan) string {
	plan, err := json.Marshal(p)
	if err != nil {
		return fmt.Sprintf("\tvar plan chaos.Plan // make it as follows: %v\n\t// %s\n", err, strings.ReplaceAll(p.String(), "\n", "\n\t// "))
	}
	return fmt.Sprintf("\tplan, err := chaos.ParsePlan([]byte(`%s`))\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n", plan)
}

// fields are the numbers and flags that are set, a line for each.
func fields(indent string, of any) string {
	var b strings.Builder
	for field, value := range reflect.ValueOf(of).Fields() {
		if field.IsExported() && !value.IsZero() && (value.CanInt() || value.CanUint() || value.CanFloat() || value.Kind() == reflect.Bool) {
			text, _ := json.Marshal(value.Interface()) // of a number or a flag
			fmt.Fprintf(&b, "%s%s: %s,\n", indent, field.Name, text)
		}
	}
	return b.String()
}
