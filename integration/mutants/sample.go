package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"go/build"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// part is code that mutants are drawn from.
type part struct {
	name  string
	files *regexp.Regexp // a file belongs to the first part that matches
}

// parts leave out files that no server of the sample runs: Redlock, whose three servers take minutes, MariaDB, SQL Server,
// and the kit's HTTP client.
var parts = []part{
	{"core", regexp.MustCompile(`^[^/]+\.go$|^internal/(dispatch|engine|instrument|lifecycle|notify|timetable|trust|waiting)/`)},
	{"", regexp.MustCompile(`^abstractions/providerkit/httpguard/|^providers/redis/internal/(redistest|redlock|script/scripts/redlock)/|/(prelude|ballot)\.lua$|^providers/sql/(mysql|sqlserver|internal)/|^providers/sql/dialect/dialecttest/`)},
	{"kit", regexp.MustCompile(`^abstractions/providerkit/`)},
	{"redis", regexp.MustCompile(`^providers/redis/`)},
	{"postgres", regexp.MustCompile(`^providers/sql/postgres/`)},
	{"sqlite", regexp.MustCompile(`^providers/sql/`)},
	{"etcd", regexp.MustCompile(`^providers/etcd/`)},
}

func partOf(file string) string {
	for _, p := range parts {
		if p.files.MatchString(file) {
			return p.name
		}
	}
	return ""
}

// equivalentsText has a line for each drawn mutant that breaks no promise: its name, a tab, and the reason.
//
//go:embed equivalents.txt
var equivalentsText string

// equivalents returns the reasons by name.
func equivalents(text string) (map[string]string, error) {
	reasons := map[string]string{}
	for line := range strings.Lines(text) {
		name, reason, found := strings.Cut(strings.TrimSpace(line), "\t")
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if !found {
			return nil, fmt.Errorf("equivalents.txt: %q has no reason", name)
		}
		reasons[name] = reason
	}
	return reasons, nil
}

// Files of the kit that Redis does not use: etcd uses the records, and SQLite uses the rules and
// the host's clock.
var (
	ofStores = regexp.MustCompile(`/(records?|expiry|codec|leases|sweep|floor|foreign)\.go$|/livefile/`)
	ofSQLite = regexp.MustCompile(`/(rules|driver|ended|tokens|hostclock[a-z_]*|disk[a-z_]*)\.go$`)
)

// realArea returns the area of a drawn mutant. Its layers are the tests of the mutant's package, and tests with a real
// server.
func realArea(root, file string) area {
	a := (&mutant{edits: []edit{{file: file}}}).area()
	switch name := partOf(file); {
	case name == "kit" && ofStores.MatchString(file):
		a.busy = "etcd"
	case name == "kit" && ofSQLite.MatchString(file):
		a.busy = "sqlite"
	case name == "kit", name == "core":
		a.busy = "redis"
	default:
		a.busy = name
	}
	a.layers[0] = withPackage(root, file, a.layers[0])
	a.layers[1] = map[string]tests{
		"redis":    overRedis,
		"postgres": overPostgres,
		"sqlite":   overSQLite,
		"etcd":     {folder: "providers/etcd", run: "^TestConformance$"},
	}[a.busy]
	if partOf(file) == "core" { // the other checks test only a provider
		a.layers[1].run += "/^Manager_"
	}
	a.layers[2] = tests{folder: "integration/mutants", run: "^TestTortureOfAServer$/^" + a.busy + "$"}
	return a
}

// candidate is a mutant that may be drawn.
type candidate struct {
	mutant
	rank [sha256.Size]byte
}

// candidates returns all mutants of the files, in the order of their ranks. The rank of a mutant depends only on the
// seed and its name, so a change elsewhere does not reorder the mutants.
func candidates(seed string, files map[string]string) (all []candidate, err error) {
	names := map[string]int{}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		text := files[file]
		made, err := changes(file, text)
		if err != nil {
			return nil, err
		}
		for _, c := range made {
			name := c.name(file, text)
			if names[name]++; names[name] > 1 {
				name = fmt.Sprintf("%s (%d)", name, names[name])
			}
			m := mutant{name: name, class: partOf(file), breaks: "whatever the line is for", edits: []edit{c.edit(file, text)}}
			all = append(all, candidate{m, sha256.Sum256([]byte(seed + "\n" + name))})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return bytes.Compare(a.rank[:], b.rank[:]) })
	return all, nil
}

// edit returns the edit of the lines that the change touches.
func (c change) edit(file, text string) edit {
	first, last := strings.Count(text[:c.start], "\n"), strings.Count(text[:c.end], "\n")
	changed := text[:c.start] + c.text + text[c.end:]
	count := last - first + 1
	return edit{
		file: file, line: first + 1,
		old: strings.Split(text, "\n")[first : last+1],
		new: strings.Split(changed, "\n")[first : first+count-strings.Count(text[c.start:c.end], "\n")+strings.Count(c.text, "\n")],
	}
}

// sources reads the files that mutants are drawn from. It leaves out tests, and files that are not built on this system.
func sources(root string, chosen *regexp.Regexp) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		file = filepath.ToSlash(file)
		if d.IsDir() {
			if d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && file != "." {
				return fs.SkipDir
			}
			return nil
		}
		if partOf(file) == "" || !chosen.MatchString(file) || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		switch path.Ext(file) {
		case ".go":
			if here, err := build.Default.MatchFile(filepath.Dir(at), d.Name()); err != nil || !here {
				return err
			}
		case ".lua", ".sql":
		default:
			return nil
		}
		text, err := os.ReadFile(at)
		files[file] = string(text)
		return err
	})
	return files, err
}

// draw returns the first count candidates that compile.
func draw(ctx context.Context, root, seed string, count int, chosen *regexp.Regexp) (list []*mutant, err error) {
	files, err := sources(root, chosen)
	if err != nil {
		return nil, err
	}
	all, err := candidates(seed, files)
	if err != nil {
		return nil, err
	}
	for i := range all {
		m := &all[i].mutant
		fine, err := m.compiles(ctx, root)
		if err != nil {
			return nil, err
		}
		if !fine {
			continue
		}
		a := realArea(root, m.edits[0].file)
		m.asked = &a
		if list = append(list, m); len(list) == count {
			return list, nil
		}
	}
	return nil, fmt.Errorf("%d of %d mutants compile, of %d that were asked for", len(list), len(all), count)
}

// compiles reports whether the changed package builds. The rules for other languages make no syntax error, so it
// returns true for their files.
func (m *mutant) compiles(ctx context.Context, root string) (bool, error) {
	file := m.edits[0].file
	if path.Ext(file) != ".go" {
		return true, nil
	}
	folder, err := os.MkdirTemp("", "leasing-mutant.")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	overlay, err := m.overlay(root, folder)
	if err != nil {
		return false, err
	}
	compile := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "./"+path.Dir(file))
	compile.Dir = root
	err = compile.Run()
	return err == nil, ctx.Err()
}

// codeCommit returns the last commit that changed files other than documents and these mutants. It ends in
// "-changed" if files have changed since.
func codeCommit(ctx context.Context, root string) (string, error) {
	code := []string{"--", ".", ":!docs", ":!integration/mutants", ":!*.md"}
	git := func(arguments ...string) (string, error) {
		command := exec.CommandContext(ctx, "git", append(arguments, code...)...)
		command.Dir = root
		text, err := command.Output()
		return strings.TrimSpace(string(text)), err
	}
	commit, err := git("log", "-1", "--format=%H")
	if err != nil {
		return "", fmt.Errorf("git log: %w", err)
	}
	changed, err := git("status", "--porcelain")
	if err != nil {
		return "", fmt.Errorf("git status: %w", err)
	}
	if changed != "" {
		commit += "-changed"
	}
	return commit, nil
}

// wilson returns the 95 % interval of a share (E. B. Wilson, Journal of the American Statistical Association 22, 1927, p.
// 209).
func wilson(count, of int) (low, high float64) {
	const z = 1.959964
	n, p := float64(of), float64(count)/float64(of)
	middle, half := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return (middle - half) / (1 + z*z/n), (middle + half) / (1 + z*z/n)
}

// share counts the drawn mutants that a layer has tested: all of them, the noticed
// mutants, and the undecided mutants.
type share struct{ noticed, undecided, of int }

func (s share) String() string {
	if s.of == 0 {
		return ""
	}
	low, high := wilson(s.noticed, s.of)
	text := fmt.Sprintf("%d of %d: %.0f %% (%.0f to %.0f)", s.noticed, s.of, 100*float64(s.noticed)/float64(s.of), 100*low, 100*high)
	if s.undecided > 0 {
		text += fmt.Sprintf(", %d undecided", s.undecided)
	}
	return text
}

// shares returns the share of each layer, and that of all layers together for the mutants that all
// layers have tested.
func (all results) shares(chosen func(name string) bool) (mutants int, by [4]share) {
	for name, of := range all {
		if !chosen(name) {
			continue
		}
		mutants++
		asked, noticed := true, false
		for i, r := range of {
			if r.outcome == "" {
				asked = false
				continue
			}
			by[i].of++
			switch r.outcome {
			case "noticed":
				by[i].noticed++
				noticed = true
			case "undecided":
				by[i].undecided++
			}
		}
		if asked {
			by[3].of++
		}
		if asked && noticed {
			by[3].noticed++
		}
	}
	return mutants, by
}

// seedOf returns the seed in a sample's head line.
func seedOf(head string) string {
	_, after, _ := strings.Cut(head, " seed ")
	seed, _, _ := strings.Cut(after, " ")
	return seed
}

// samplePage returns the sample's section of docs/mutants.md.
func samplePage(head string, all results, reasons map[string]string) (string, error) {
	var text, unnoticed, equal strings.Builder
	asked := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		of := all[name]
		reason, none := reasons[name]
		open := slices.ContainsFunc(of[:], func(r result) bool { return r.outcome == "" })
		noticed := slices.ContainsFunc(of[:], func(r result) bool { return r.outcome == "noticed" })
		switch {
		case none && noticed:
			return "", fmt.Errorf("equivalents.txt: %q is noticed", name)
		case none:
			fmt.Fprintf(&equal, "- %s. %s\n", name, reason)
		case !noticed && of != [3]result{}:
			var by []string
			for i, r := range of {
				by = append(by, layers[i]+": "+cmp.Or(r.outcome, "not asked"))
			}
			fmt.Fprintf(&unnoticed, "- %s (%s)\n", name, strings.Join(by, ", "))
		}
		if !open {
			asked++
		}
	}
	if count := strings.Count(equal.String(), "\n"); 20*count > len(all) {
		return "", fmt.Errorf("equivalents.txt: %d of %d are more than 5 %%", count, len(all))
	}
	partial := "All three layers were asked about each mutant."
	if asked < len(all) {
		partial = fmt.Sprintf("It is partial: all three layers were asked about %d of its %d mutants. A layer's share is of those that it was asked about.", asked, len(all))
	}
	fmt.Fprintf(&text, `
## Mutants that chance has drawn

The list above is chosen. `+"`make mutants MUTANTS='-sample 120 -seed %s'`"+` draws
120 mutants by operator instead. It negates conditions, replaces operators, drops statements, changes constants and durations, returns nil for an error, and empties cases. It
draws from the core, the kit, Redis with its scripts, PostgreSQL and SQLite with their statements, and etcd. Redlock, MariaDB and the kit's HTTP client are left out. The seed is
a commit's hash. A mutant's place in the order depends on the seed and on its own text. A mutant that does not compile is passed over. `+"`-files`"+` draws from
such files only, and `+"`-resume`"+` goes on with a sample of the same commit.

Each mutant is asked of the own tests of its package, of the conformance suite on a real server, and of 15 s of torture over that server: Redis for the core and most of the
kit. A test that notices a mutant has to fail twice. A mutant that only the time limit ends is undecided, which counts as unnoticed. Brackets hold the 95 %% interval (Wilson).
`+"[`sample.tsv`](../integration/mutants/sample.tsv)"+` has the answer of each layer about each mutant.

This sample: %s. %s

| part | mutants | own tests | conformance | torture | any of them |
|---|---|---|---|---|---|
`, seedOf(head), head, partial)
	row := func(name string, chosen func(string) bool) {
		mutants, by := all.shares(func(name string) bool { _, none := reasons[name]; return !none && chosen(name) })
		if mutants > 0 {
			fmt.Fprintf(&text, "| %s | %d | %v | %v | %v | %v |\n", name, mutants, by[0], by[1], by[2], by[3])
		}
	}
	for _, p := range parts {
		if p.name != "" {
			row(p.name, func(name string) bool { file, _, _ := strings.Cut(name, " "); return partOf(file) == p.name })
		}
	}
	row("**all**", func(string) bool { return true })
	if unnoticed.Len() > 0 {
		text.WriteString("\n### Drawn, and noticed by no layer that was asked\n\n" + unnoticed.String())
	}
	if equal.Len() > 0 {
		text.WriteString("\n### Drawn, and equivalent\n\n" + equal.String())
	}
	return text.String(), nil
}
