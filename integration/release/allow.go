package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// footprint is what a module brings along: module paths, sorted, by section of
// its allow-list. Versions are left out, so that an upgrade doesn't touch it.
type footprint map[string][]string

// The sections of an allow-list.
const (
	byPackages = "packages" // what its packages import, test helpers aside
	byProgram  = "program"  // what its program in consumers/ links
	byGraph    = "graph"    // what is in that program's module graph
)

var sections = []string{byPackages, byProgram, byGraph}

var sectionTitles = map[string]string{
	byPackages: "modules that its packages import (packages named ...test aside)",
	byProgram:  "modules that a program using it links",
	byGraph:    "modules that go get brings into the module graph",
}

// parseAllow reads an allow-list: "[section]" lines, module paths, comments.
func parseAllow(text string) (footprint, error) {
	f := make(footprint)
	section := ""
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		name, isSection := strings.CutPrefix(line, "[")
		switch {
		case line == "":
		case isSection:
			section = strings.TrimSuffix(name, "]")
			if !slices.Contains(sections, section) {
				return nil, fmt.Errorf("line %d: unknown section %q", n, line)
			}
		case section == "":
			return nil, fmt.Errorf("line %d: %s stands in no section", n, line)
		default:
			f[section] = append(f[section], line)
		}
	}
	for _, paths := range f {
		slices.Sort(paths)
	}
	return f, nil
}

// format writes the allow-list that allows exactly f.
func (f footprint) format(module string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What %s brings along.\n", module)
	b.WriteString("# Each line is a promise to its users: think before you add one.\n")
	b.WriteString("# Written by: go run ./integration/release check -update\n")
	for _, section := range sections {
		fmt.Fprintf(&b, "\n[%s] # %s\n", section, sectionTitles[section])
		for _, path := range f[section] {
			b.WriteString(path + "\n")
		}
	}
	return b.String()
}

// against returns how f differs from what is allowed: "" if it doesn't.
func (f footprint) against(allowed footprint) string {
	var b strings.Builder
	for _, section := range sections {
		if d := diff(allowed[section], f[section]); d != "" {
			fmt.Fprintf(&b, "  [%s] %s\n%s", section, sectionTitles[section], d)
		}
	}
	return b.String()
}

// diff lists the lines that only one of the two has, sorted: "-" for those only
// in want, "+" for those only in got.
func diff(want, got []string) string {
	count := make(map[string]int)
	for _, line := range got {
		count[line]++
	}
	for _, line := range want {
		count[line]--
	}
	var b strings.Builder
	for _, line := range slices.Sorted(maps.Keys(count)) {
		switch {
		case count[line] > 0:
			fmt.Fprintf(&b, "  + %s\n", line)
		case count[line] < 0:
			fmt.Fprintf(&b, "  - %s\n", line)
		}
	}
	if b.Len() == 0 && !slices.Equal(want, got) {
		return "  the same lines in another order\n"
	}
	return b.String()
}
