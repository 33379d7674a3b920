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
	o.Plan.Rules = ddmin(o.Plan.Rules, func(rules []chaos.Rule) bool {
		smaller := o
		smaller.Plan.Rules = rules
		return fails(smaller)
	})
	return o
}

// ddmin leaves out what is not needed to fail: of halves first, then of smaller parts (Zeller
// and Hildebrandt, Simplifying and isolating failure-inducing input, 2002).
func ddmin[T any](all []T, fails func([]T) bool) []T {
	for parts := 2; len(all) > 0; {
		size := (len(all) + parts - 1) / parts
		smaller := false
		for from := 0; from < len(all) && !smaller; from += size {
			rest := slices.Concat(all[:from], all[min(from+size, len(all)):])
			if smaller = fails(rest); smaller {
				all, parts = rest, max(parts-1, 2)
			}
		}
		switch {
		case smaller:
		case size == 1:
			return all
		default:
			parts = min(2*parts, len(all))
		}
	}
	return all
}

// goTest is the Go test that makes the run. What is a function it can't say.
func (o Options) goTest() string {
	var b strings.Builder
	b.WriteString("func TestAgain(t *testing.T) {\n")
	plan, err := json.Marshal(o.Plan)
	if err == nil && len(o.Plan.Rules) > 0 {
		fmt.Fprintf(&b, "\tplan, err := chaos.ParsePlan([]byte(`%s`))\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n", plan)
	}
	b.WriteString("\ttorture.TestVirtual(t, backend, torture.Options{\n")
	if len(o.Plan.Rules) > 0 {
		b.WriteString("\t\tPlan: plan,\n")
	}
	fields(reflect.ValueOf(o), func(name, value string) { fmt.Fprintf(&b, "\t\t%s: %s,\n", name, value) })
	b.WriteString("\t\tManager: leasing.Options{")
	fields(reflect.ValueOf(o.Manager), func(name, value string) { fmt.Fprintf(&b, "%s: %s, ", name, value) })
	b.WriteString("},\n\t})\n}\n")
	return b.String()
}

// fields are the numbers and flags that are set.
func fields(of reflect.Value, each func(name, value string)) {
	for field, value := range of.Fields() {
		if !field.IsExported() || value.IsZero() {
			continue
		}
		switch {
		case value.CanInt():
			each(field.Name, fmt.Sprint(value.Int()))
		case value.CanUint():
			each(field.Name, fmt.Sprint(value.Uint()))
		case value.CanFloat():
			each(field.Name, fmt.Sprint(value.Float()))
		case value.Kind() == reflect.Bool:
			each(field.Name, "true")
		}
	}
}
