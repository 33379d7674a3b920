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

// TestVirtual is Test in virtual time. Each run is in a bubble of testing/synctest, with a backend that
// is created in the bubble. Options.Open is not needed. If a run violates a check, TestVirtual looks for
// the smallest run that violates the same check, with fewer rules, workers and names and in less time,
// and prints the Go test that repeats that run.
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
		t.Errorf("%v\nThe smallest run that breaks %q:\n\n%s", err, broken, goTest(options))
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

// shrink makes a run smaller for as long as the run still fails.
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
	try(func(o *Options) { // the rules' names seed their random choices, so they should not change
		o.Plan.Rules = slices.Clone(o.Plan.Rules)
		for i := range o.Plan.Rules {
			if r := &o.Plan.Rules[i]; r.Name == "" {
				r.Name = fmt.Sprintf("%s %d", r.Fault.Kind, i)
			}
		}
	})
	complete, _ := o.WithDefaults()
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

// goTest returns the source of a Go test that repeats the run. It leaves out options that are functions.
func goTest(o Options) string {
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

// goPlan returns Go code that creates a plan. For a plan that contains functions it returns a description.
func goPlan(p chaos.Plan) string {
	plan, err := json.Marshal(p)
	if err != nil {
		return fmt.Sprintf("\tvar plan chaos.Plan // make it as follows: %v\n\t// %s\n", err, strings.ReplaceAll(p.String(), "\n", "\n\t// "))
	}
	return fmt.Sprintf("\tplan, err := chaos.ParsePlan([]byte(`%s`))\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n", plan)
}

// fields returns a line for each number and flag that is set.
func fields(indent string, of any) string {
	var b strings.Builder
	for field, value := range reflect.ValueOf(of).Fields() {
		if field.IsExported() && !value.IsZero() && (value.CanInt() || value.CanUint() || value.CanFloat() || value.Kind() == reflect.Bool) {
			text, _ := json.Marshal(value.Interface()) // a number or a flag can't fail
			fmt.Fprintf(&b, "%s%s: %s,\n", indent, field.Name, text)
		}
	}
	return b.String()
}
