package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action  string
	Package string
	Test    string
}

type testKey struct{ pkg, test string }

// report collects the last state of every test, package and step.
type report struct {
	modules  []string
	tests    map[testKey]string // run, pass, fail or skip
	packages map[string]string  // start, pass, fail or skip
	steps    []step
	problems []string
}

type step struct {
	name    string
	ok      bool
	seconds int
}

func newReport(modules []string) *report {
	return &report{
		modules:  modules,
		tests:    make(map[testKey]string),
		packages: make(map[string]string),
	}
}

func (r *report) readEvents(in io.Reader) error {
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if err := json.Unmarshal(line, &e); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			r.add(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) add(e event) {
	switch e.Action {
	case "start", "run", "pass", "fail", "skip":
	default: // output, pause, cont, bench, build-output, build-fail
		return
	}
	switch {
	case e.Package == "":
	case e.Test == "":
		r.packages[e.Package] = e.Action
	default:
		r.tests[testKey{e.Package, e.Test}] = e.Action
	}
}

func (r *report) readSteps(text string) error {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 3 || (fields[1] != "ok" && fields[1] != "failed") {
			return fmt.Errorf("not a step: %q", line)
		}
		seconds, err := strconv.Atoi(fields[2])
		if err != nil {
			return fmt.Errorf("not a step: %q: %w", line, err)
		}
		r.steps = append(r.steps, step{fields[0], fields[1] == "ok", seconds})
	}
	return nil
}

// require notes each backend that no test passed on: a run that left it out
// proves nothing about it.
func (r *report) require(names []string) {
	ran := make(map[string]bool)
	for k, state := range r.tests {
		if state == "pass" {
			ran[backendOf(k.pkg, k.test)] = true
		}
	}
	for _, name := range names {
		if !ran[name] {
			r.problems = append(r.problems, fmt.Sprintf("no test passed against %s", name))
		}
	}
}

type rowKey struct{ module, backend string }

type row struct {
	packages                map[string]bool
	passed, failed, skipped int
}

// rows sums the tests by module and backend.
func (r *report) rows() map[rowKey]*row {
	rows := make(map[rowKey]*row)
	failedIn := make(map[string]bool)
	for k, state := range r.tests {
		line := rowOf(rows, rowKey{moduleOf(r.modules, k.pkg), backendOf(k.pkg, k.test)})
		line.packages[k.pkg] = true
		switch state {
		case "pass":
			line.passed++
		case "skip":
			line.skipped++
		default: // failed, or still running when its process ended
			line.failed++
			failedIn[k.pkg] = true
		}
	}
	// A package can fail without a test that did: it didn't build, or
	// panicked, or leaked after its last test.
	for pkg, state := range r.packages {
		if (state == "fail" || state == "start") && !failedIn[pkg] {
			line := rowOf(rows, rowKey{moduleOf(r.modules, pkg), backendOf(pkg, "")})
			line.packages[pkg] = true
			line.failed++
		}
	}
	return rows
}

func rowOf(rows map[rowKey]*row, k rowKey) *row {
	if rows[k] == nil {
		rows[k] = &row{packages: make(map[string]bool)}
	}
	return rows[k]
}

// sortedRows orders by module, and within one by backend.
func sortedRows(rows map[rowKey]*row) []rowKey {
	return slices.SortedFunc(maps.Keys(rows), func(a, b rowKey) int {
		if c := strings.Compare(a.module, b.module); c != 0 {
			return c
		}
		return strings.Compare(a.backend, b.backend)
	})
}
