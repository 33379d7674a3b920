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

// results maps a mutant's name to the result of each layer.
type results map[string][3]result

// resultFile is a file of results. Its first line names the code to which the results belong. Each mutant
// has a line, with a column for each layer.
type resultFile struct {
	results
	file string
	// head begins with the commit of the code. A sample's head also says how the mutants were drawn.
	head string
}

// readResults reads a file; a missing file has no results.
func readResults(file string) (resultFile, error) {
	k := resultFile{results{}, file, ""}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, err
	}
	head, rows, _ := strings.Cut(string(data), "\n")
	k.head = strings.TrimPrefix(head, "# ")
	if k.head == head {
		return k, fmt.Errorf("%s does not begin with the commit", file)
	}
	for line := range strings.Lines(rows) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(columns) != 1+len(layers) {
			return k, fmt.Errorf("%s: a line with %d columns", file, len(columns))
		}
		var of [3]result
		for i, column := range columns[1:] {
			of[i].outcome, of[i].by, _ = strings.Cut(column, " ")
		}
		k.results[columns[0]] = of
	}
	return k, nil
}

// reset drops the results of another commit, and of mutants that are not in the list. A sample has a
// row for each mutant of the list, even before its results.
func (k *resultFile) reset(head string, list []*mutant, sample bool) {
	if commit, _, _ := strings.Cut(head, ","); !strings.HasPrefix(k.head+",", commit+",") {
		clear(k.results)
	}
	k.head = head
	rows := results{}
	for _, m := range list {
		if of, ok := k.results[m.name]; ok || sample {
			rows[m.name] = of
		}
	}
	k.results = rows
}

func (k resultFile) write() error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n", k.head)
	for _, name := range slices.Sorted(maps.Keys(k.results)) {
		text.WriteString(name)
		for _, of := range k.results[name] {
			fmt.Fprintf(&text, "\t%s", strings.TrimSpace(of.outcome+" "+of.by))
		}
		text.WriteString("\n")
	}
	return os.WriteFile(k.file, []byte(text.String()), 0o644)
}

// count is the number of mutants that a layer has noticed, out of those that it has tests for.
type count struct{ noticed, of int }

func (c count) String() string {
	if c.of == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", c.noticed, c.of)
}

// counts considers only mutants that break a promise.
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

// page returns docs/mutants.md without the sample's section.
func page(list []*mutant, all resultFile) string {
	var text strings.Builder
	text.WriteString(`# Mutants

Deliberate defects, each a named change to the code, and the layer of the tests that notices the change. The list is
` + "[`integration/mutants/mutants.txt`](../integration/mutants/mutants.txt)" + `; the answer of each layer about each mutant, with the test,
is in ` + "`results.tsv`" + ` in the same folder. ` + "`make mutants`" + ` runs them all and writes both. ` + "`make test`" + ` checks that
each change still applies.

- **own tests**: the tests of the package that is changed.
- **conformance**: ` + "`abstractions/providertest`" + `, which any provider can run, on the provider concerned. For the core it
  runs over memory in virtual time. So it does for the kit's rules, which are also tried on files, SQLite and Redis, whose scripts restate them; the kit's
  records and expiry run over stores in memory, one of whole seconds, one without a clock, and one with leases, and over Cosmos' fake. For the stores of sequences it is ` + "`sequence/sequencetest`" + `.
- **torture**: ` + "`chaos/torture`" + ` over memory in virtual time, two minutes of each ready-made plan. It is asked about the core, the
  kit's rules and memory only.

A layer counts the mutants that it has tests for and that it was run on: ` + "`MUTANTS=-resume`" + ` runs it on the others. Its tests pass on the unchanged
code, as each run checks at its beginning. A real server, or a time limit, can fail a test on a busy machine: a layer with a server has to notice a mutant twice.

`)
	if len(all.results) == 0 {
		text.WriteString("The list has not been run on this code.\n")
	} else {
		fmt.Fprintf(&text, "The results are those of %s. A run on another commit of the code drops them.\n", all.head)
	}
	text.WriteString(`
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
		for i, of := range all.results[m.name] {
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
