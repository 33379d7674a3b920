package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// results are what the layers have said of the mutants, by name. They are a file with a
// line for each mutant and a column for each layer.
type results map[string][3]result

// readResults leaves out mutants that are no longer in the list.
func readResults(file string, list []*mutant) (results, error) {
	all := results{}
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(columns) != 1+len(layers) {
			return nil, fmt.Errorf("%s: a line with %d columns", file, len(columns))
		}
		if !slices.ContainsFunc(list, func(m *mutant) bool { return m.name == columns[0] }) {
			continue
		}
		var of [3]result
		for i, column := range columns[1:] {
			of[i].outcome, of[i].by, _ = strings.Cut(column, " ")
		}
		all[columns[0]] = of
	}
	return all, nil
}

func (all results) write(file string) error {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text.WriteString(name)
		for _, of := range all[name] {
			fmt.Fprintf(&text, "\t%s", strings.TrimSpace(of.outcome+" "+of.by))
		}
		text.WriteString("\n")
	}
	return os.WriteFile(file, []byte(text.String()), 0o644)
}

// count is how many mutants a layer has noticed, of those that it has tests for.
type count struct{ noticed, of int }

func (c count) String() string {
	if c.of == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", c.noticed, c.of)
}

// counts looks at mutants that break a promise.
func (all results) counts(list []*mutant, chosen func(*mutant) bool) (mutants int, by [3]count) {
	for _, m := range list {
		if m.breaks == "" || !chosen(m) {
			continue
		}
		mutants++
		for i, of := range all[m.name] {
			switch of.outcome {
			case "noticed":
				by[i].noticed++
				by[i].of++
			case "missed":
				by[i].of++
			}
		}
	}
	return mutants, by
}

// page is docs/mutants.md.
func page(list []*mutant, all results) string {
	var text strings.Builder
	text.WriteString(`# Mutants

Deliberate defects, each a named change to the code, and the layer of the tests that notices it. The list is
` + "[`integration/mutants/mutants.txt`](../integration/mutants/mutants.txt)" + `; what each layer said of each of them, and by which test,
is in ` + "[`results.tsv`](../integration/mutants/results.tsv)" + ` beside it. ` + "`make mutants`" + ` runs them all and writes both. ` + "`make test`" + ` checks that
each change still applies.

- **own tests**: those of the package that is changed.
- **conformance**: ` + "`abstractions/providertest`" + `, which anybody's provider can run, on the provider concerned. For the core it
  runs over memory in virtual time. So it does for the kit's rules, which are also tried on files, SQLite and Redis, whose scripts restate them; the kit's
  records and expiry run over stores in memory, one of whole seconds, one without a clock, and one with leases, and over Cosmos' fake. For the stores of sequences it is ` + "`sequence/sequencetest`" + `.
- **torture**: ` + "`chaos/torture`" + ` over memory in virtual time, two minutes of each ready-made plan. It is asked about the core, the
  kit's rules and memory only.

A layer counts the mutants that it has tests for and that it was run on: ` + "`MUTANTS=-resume`" + ` runs it on the others. Its tests pass on the code as
it is, which is tried first. A real server, or a time limit, can fail a test on a busy machine: what notices a mutant beside one has to do so twice.

| class | mutants | own tests | conformance | torture |
|---|---|---|---|---|
`)
	row := func(name string, chosen func(*mutant) bool) {
		mutants, by := all.counts(list, chosen)
		fmt.Fprintf(&text, "| %s | %d | %v | %v | %v |\n", name, mutants, by[0], by[1], by[2])
	}
	for _, class := range classes {
		row(class, func(m *mutant) bool { return m.class == class })
	}
	row("**all**", func(*mutant) bool { return true })
	row("of them in the core and memory", func(m *mutant) bool { return m.area().layers[2].folder != "" })
	var missed [3][]string
	var none []string
	for _, m := range list {
		if m.equivalent != "" {
			none = append(none, fmt.Sprintf("%s. %s", m.name, m.equivalent))
			continue
		}
		for i, of := range all[m.name] {
			if of.outcome == "missed" {
				missed[i] = append(missed[i], m.name)
			}
		}
	}
	section := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(&text, "\n## %s\n\n", title)
		for _, line := range lines {
			fmt.Fprintf(&text, "- %s\n", line)
		}
	}
	section("Survive all layers", all.survivors(list))
	section("Missed by the packages' own tests", missed[0])
	section("Missed by conformance", missed[1])
	section("Missed by torture", missed[2])
	section("Equivalent: these break no promise", none)
	return text.String()
}
