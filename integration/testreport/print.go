package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// print writes the table, what is worth a look, and the closing line. It
// answers whether the run was good.
func (r *report) print(out io.Writer) (bool, error) {
	var total row
	rows := r.rows()
	if len(r.tests) == 0 {
		r.problems = append(r.problems, "no test ran")
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nmodule\tbackend\tpackages\tpassed\tfailed\tskipped")
	for _, k := range sortedRows(rows) {
		line := rows[k]
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\n",
			r.short(k.module), k.backend, len(line.packages), line.passed, line.failed, line.skipped)
		total.passed += line.passed
		total.failed += line.failed
		total.skipped += line.skipped
	}
	if len(r.steps) > 0 {
		fmt.Fprintln(w, "\nstep\tresult\tseconds")
	}
	for _, s := range r.steps {
		result := "ok"
		if s.ok {
			total.passed++
		} else {
			result = "FAILED"
			total.failed++
		}
		fmt.Fprintf(w, "%s\t%s\t%d\n", s.name, result, s.seconds)
	}
	if err := w.Flush(); err != nil {
		return false, err
	}
	fmt.Fprintln(out)
	for _, k := range r.notable() {
		fmt.Fprintf(out, "%s: %s %s\n", verdicts[r.tests[k]], k.pkg, k.test)
	}
	for _, p := range r.problems {
		fmt.Fprintln(out, "FAILED:", p)
	}
	total.failed += len(r.problems)
	_, err := fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", total.passed, total.failed, total.skipped)
	return total.failed == 0, err
}

var verdicts = map[string]string{"fail": "FAILED", "run": "NEVER ENDED", "skip": "skipped"}

// notable lists the tests that did not pass, so that a skip is never silent.
func (r *report) notable() []testKey {
	keys := slices.DeleteFunc(slices.Collect(maps.Keys(r.tests)), func(k testKey) bool {
		return r.tests[k] == "pass"
	})
	slices.SortFunc(keys, func(a, b testKey) int {
		return strings.Compare(a.pkg+" "+a.test, b.pkg+" "+b.test)
	})
	return keys
}

// short drops what all modules share, the root module's path: the shortest.
func (r *report) short(module string) string {
	root := slices.MinFunc(r.modules, func(a, b string) int { return len(a) - len(b) })
	if module == root {
		return "(root)"
	}
	return strings.TrimPrefix(module, root+"/")
}
