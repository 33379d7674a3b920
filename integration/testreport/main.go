// Command testreport reads the output of `go test -json` and prints which tests ran against
// which backend. It is the last step of `make test`.
//
//	testreport STEPS EVENTS.json
//
// A test counts for the backend that its own name, or else its package, names (see backends). The last line reads "N passed, N
// failed, N skipped"; besides tests it counts the steps in STEPS, such as the linters and the release check, each in a line
// "name<TAB>ok|failed<TAB>seconds". The failures come right before the last line, each with the end of its output, so that the
// end of a log has them all. The exit code is 1 when anything failed, when a test never ended, or when a backend had no test that
// passed.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
)

// backends are the names by which tests and packages show their backend, as in TestConformancePostgres, TestMigrate/sqlite and
// providers/memory. "redis" means one node. In its module the name of a test with several nodes shows their kind, as in
// TestConformanceRedlock3.
var backends = []string{"memory", "sqlite", "postgres", "redis", "redlock", "cluster", "sentinel", "blob", "cosmos", "s3", "etcd", "consul", "kubernetes", "mariadb", "sqlserver"}

// noBackend stands for tests of the core, of pure functions and of tools.
const noBackend = "-"

func main() {
	ok, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(args []string) (ok bool, err error) {
	if len(args) != 2 {
		return false, fmt.Errorf("want a file of steps and one of go test -json output, got %q", args)
	}
	steps, err := os.ReadFile(args[0])
	if err != nil {
		return false, err
	}
	events, err := os.ReadFile(args[1])
	if err != nil {
		return false, err
	}
	modules, err := exec.CommandContext(context.Background(), "go", "list", "-m").Output()
	if err != nil {
		return false, fmt.Errorf("go list -m: %w", err)
	}
	return report(os.Stdout, strings.Fields(string(modules)), string(steps), events)
}

// test is a test or, if its name is empty, the work of its package before and after the tests.
type test struct{ pkg, name string }

// row is a line of the table: the tests of a module against a backend.
type row struct{ module, backend string }

// counts has the number of tests by their last state: pass, fail or skip.
type counts map[string]int

// summary is the result of a run.
type summary struct {
	rows     map[row]counts
	packages map[row]map[string]bool
	total    counts
	skips    []string // so that no skip is silent
	failures []string
}

// report writes the tables, the tests that did not pass, and the last line. It returns true if nothing failed.
func report(out io.Writer, modules []string, steps string, events []byte) (ok bool, err error) {
	states, printed, err := read(events)
	if err != nil {
		return false, err
	}
	s := summarize(modules, states, printed)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nmodule\tbackend\tpackages\tpassed\tfailed\tskipped")
	for _, r := range slices.SortedFunc(maps.Keys(s.rows), func(a, b row) int {
		return cmp.Or(cmp.Compare(a.module, b.module), cmp.Compare(a.backend, b.backend))
	}) {
		n := s.rows[r]
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\n", r.module, r.backend, len(s.packages[r]), n["pass"], n["fail"], n["skip"])
	}
	fmt.Fprintln(table, "\nstep\tresult\tseconds")
	for step := range strings.Lines(steps) {
		if strings.Contains(step, "\tok\t") {
			s.total["pass"]++
		} else {
			s.total["fail"]++
			name, _, _ := strings.Cut(step, "\t")
			s.failures = append(s.failures, "FAILED: "+name)
		}
		fmt.Fprint(table, step)
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	fmt.Fprintln(out)
	for _, text := range slices.Concat(s.skips, s.failures) {
		fmt.Fprintln(out, text)
	}
	_, err = fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", s.total["pass"], s.total["fail"], s.total["skip"])
	return s.total["fail"] == 0, err
}

// summarize counts the tests. It counts each backend without a passed test as a failure: a run proves nothing about a backend
// that it left out.
func summarize(modules []string, states map[test]string, printed map[test][]string) summary {
	s := summary{rows: map[row]counts{}, packages: map[row]map[string]bool{}, total: counts{}}
	proven, skipped := map[string]bool{}, map[test][]test{}
	for _, t := range slices.SortedFunc(maps.Keys(states), func(a, b test) int {
		return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.name, b.name))
	}) {
		r, state := row{moduleOf(modules, t.pkg), backendOf(t)}, states[t]
		switch state {
		case "pass":
		case "skip":
			parent := test{t.pkg, t.name[:max(0, strings.LastIndex(t.name, "/"))]}
			skipped[parent] = append(skipped[parent], t)
		case "fail":
			s.failures = append(s.failures, fmt.Sprintf("%sFAILED: %s %s", end(printed[t]), t.pkg, t.name))
		default:
			state = "fail"
			s.failures = append(s.failures, fmt.Sprintf("%sNEVER ENDED: %s %s", end(printed[t]), t.pkg, t.name))
		}
		if s.rows[r] == nil {
			s.rows[r], s.packages[r] = counts{}, map[string]bool{}
		}
		s.packages[r][t.pkg] = true
		s.rows[r][state]++
		s.total[state]++
		proven[r.backend] = proven[r.backend] || state == "pass"
	}
	for _, parent := range slices.SortedFunc(maps.Keys(skipped), func(a, b test) int {
		return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.name, b.name))
	}) {
		s.skips = append(s.skips, skips(parent, skipped[parent])...)
	}
	for _, name := range backends {
		if !proven[name] {
			s.total["fail"]++
			s.failures = append(s.failures, "FAILED: no test passed against "+name)
		}
	}
	return s
}

// skips returns a line for each skipped test, or one line if a parent has many, since a conformance suite skips the checks that
// do not fit its server. The events have the reason for each skip.
func skips(parent test, skipped []test) (lines []string) {
	const most = 5
	if parent.name != "" && len(skipped) > most {
		return []string{fmt.Sprintf("skipped: %s %s: %d subtests", parent.pkg, parent.name, len(skipped))}
	}
	for _, t := range skipped {
		lines = append(lines, fmt.Sprintf("skipped: %s %s", t.pkg, t.name))
	}
	return lines
}

// end returns the end of a test's output, without the lines of go test itself.
func end(printed []string) string {
	const most = 20
	lines := slices.DeleteFunc(slices.Clone(printed), func(line string) bool {
		return strings.HasPrefix(line, "=== ")
	})
	return strings.Join(lines[max(0, len(lines)-most):], "")
}

// read reads events in the format of `go doc test2json`. It returns the last state of each test (run, pass, fail or skip), and
// the output of each test that neither passed nor was skipped. A package is listed if it failed or never ended, although all
// of its tests ended and none failed. Such a package didn't build, or it panicked or leaked after its last test.
func read(events []byte) (states map[test]string, printed map[test][]string, err error) {
	states, printed = map[test]string{}, map[test][]string{}
	passed := map[test]bool{} // in an earlier part of the run; a later part may lack the server
	for lines := json.NewDecoder(bytes.NewReader(events)); lines.More(); {
		var e struct{ Action, Package, Test, Output string }
		if err := lines.Decode(&e); err != nil {
			return nil, nil, fmt.Errorf("byte %d is no event of go test -json: %w", lines.InputOffset(), err)
		}
		t := test{e.Package, e.Test}
		switch e.Action {
		case "output":
			printed[t] = append(printed[t], e.Output)
		case "start", "run", "pass", "fail", "skip": // not pause, cont, bench, build-output, build-fail
			states[t] = e.Action
			if e.Action == "skip" && passed[t] {
				states[t] = "pass"
			}
			passed[t] = passed[t] || e.Action == "pass"
			if e.Action == "pass" || e.Action == "skip" {
				delete(printed, t)
			}
		}
	}
	failedIn := map[string]bool{}
	for t, state := range states {
		if t.name != "" && state != "pass" && state != "skip" {
			failedIn[t.pkg] = true
		}
	}
	maps.DeleteFunc(states, func(t test, state string) bool {
		return t.name == "" && (state == "pass" || state == "skip" || failedIn[t.pkg])
	})
	return states, printed, nil
}

// backendOf returns the backend in the name of the test, or else in the name of its package. If a name contains several backends,
// the first counts.
func backendOf(t test) string {
	for _, text := range []string{strings.ToLower(t.name), strings.ToLower(t.pkg)} {
		found, at := "", len(text)
		for _, name := range backends {
			if i := strings.Index(text, name); i >= 0 && i < at {
				found, at = name, i
			}
		}
		if found != "" {
			return found
		}
	}
	return noBackend
}

// moduleOf returns the module with the longest path that holds the package. The
// result omits the path of the root module, with which all paths begin.
func moduleOf(modules []string, pkg string) string {
	root := slices.MinFunc(modules, func(a, b string) int { return len(a) - len(b) })
	longest := ""
	for _, m := range modules {
		if strings.HasPrefix(pkg+"/", m+"/") && len(m) > len(longest) {
			longest = m
		}
	}
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(longest, root), "/"), "(root)")
}
