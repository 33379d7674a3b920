package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// changedLines returns the changed lines of each change to a small text, with the operator.
func changedLines(t *testing.T, file, text string) (lines []string) {
	t.Helper()
	all, err := changes(file, text)
	require.NoError(t, err)
	for _, c := range all {
		var parts []string
		for _, line := range c.edit(file, text).new {
			parts = append(parts, strings.Join(strings.Fields(line), " "))
		}
		lines = append(lines, strings.TrimSpace(c.operator+": "+strings.Join(parts, " ")))
	}
	return lines
}

func TestEachOperatorOfGo(t *testing.T) {
	for body, want := range map[string][]string{
		"if a {\n}":                        {"negate a condition: if !(a) {"},
		"if a == b {\n}":                   {"replace an operator: if a != b {"},
		"for a.ok() {\n}":                  {"negate a condition: for !(a.ok()) {"},
		"_ = a < b":                        {"drop a statement:", "replace an operator: _ = a <= b"},
		"x := a >= b":                      {"replace an operator: x := a > b"},
		"x := a && b":                      {"replace an operator: x := a || b"},
		"x := a - b":                       {"swap operands: x := b - a"},
		"x := a + b":                       {"replace an operator: x := a - b"},
		"x = a":                            {"drop a statement:"},
		"x++":                              {"drop a statement:"},
		"f(\na,\n)":                        {"drop a statement:"},
		"defer f()":                        {"drop a statement:"},
		"c <- x":                           {"drop a statement:"},
		"x := 0":                           {"change a constant: x := 1"},
		"x := 1":                           {"change a constant: x := 0", "change a constant: x := 2"},
		"x := 7":                           {"change a constant: x := 0", "change a constant: x := 1", "change a constant: x := 14"},
		"x := 0.5":                         {"change a constant: x := 0.0", "change a constant: x := (2 * 0.5)"},
		"x := true":                        {"change a constant: x := false"},
		"x := time.Minute":                 {"double a duration: x := (2 * time.Minute)"},
		"return err":                       {"return no error: return nil"},
		"return nil":                       nil,
		"switch {\ncase a:\nx = a\ng()\n}": {"drop a statement:", "empty a case:", "drop a statement:"},
		"switch {\ncase a:\nreturn nil\n}": {"empty a case:"},
		"x := func() int { return y }":     nil,
		"x := func() error { return e }":   {"return no error: x := func() error { return nil }"},
	} {
		t.Run(body, func(t *testing.T) {
			require.Equal(t, want, changedLines(t, "f.go", "package p\n\nfunc f() error {\n"+body+"\n}\n"))
		})
	}
	require.Equal(t, []string{"replace an operator: const q = `SELECT a WHERE b <> c`"}, changedLines(t, "providers/sql/f.go", "package p\n\nconst q = `SELECT a WHERE b = c`\n"))
	require.Empty(t, changedLines(t, "f.go", "package p\n\nconst q = `SELECT a WHERE b = c`\n"), "text that is no SQL")
}

func TestEachOperatorOfTexts(t *testing.T) {
	for _, c := range []struct {
		file, line string
		want       []string
	}{
		{"f.lua", "if a == b then -- and c < 2", []string{"replace an operator: if a ~= b then -- and c < 2"}},
		{"f.lua", "if not a then", []string{"negate a condition: if a then"}},
		{"f.lua", "  write(key, f(x))", []string{"drop a statement:"}},
		{"f.lua", "  state.id = g(x)", []string{"drop a statement:"}},
		{"f.lua", "local x = y - ' < 5'", []string{"replace an operator: local x = y + ' < 5'"}},
		{"f.lua", "local x = sub(y, 3)", []string{"change a constant: local x = sub(y, 0)", "change a constant: local x = sub(y, 1)", "change a constant: local x = sub(y, 6)"}},
		{"f.sql", "WHERE a = b AND {{now < 2}} <= c", []string{"replace an operator: WHERE a <> b AND {{now < 2}} <= c", "replace an operator: WHERE a = b OR {{now < 2}} <= c", "replace an operator: WHERE a = b AND {{now < 2}} < c"}},
		{"f.sql", "AND NOT a.b", []string{"drop a condition:", "replace an operator: OR NOT a.b", "negate a condition: AND a.b"}},
		{"f.sql", "SELECT greatest(a, $1)", []string{"replace an operator: SELECT least(a, $1)"}},
		{"f.sql", "WHERE a IS NULL", []string{"negate a condition: WHERE a IS NOT NULL"}},
		{"f.sql", "-- WHERE a = 1", nil},
		{"f.txt", "if a == b then", nil},
	} {
		t.Run(c.line, func(t *testing.T) {
			require.ElementsMatch(t, c.want, changedLines(t, c.file, c.line+"\n"))
		})
	}
}

// Each candidate has a unique name, and its edit applies to the present code and results in valid Go.
func TestEachCandidateApplies(t *testing.T) {
	servertest.Long(t)
	files, err := sources("../..", regexp.MustCompile(""))
	require.NoError(t, err)
	all, err := candidates("seed", files)
	require.NoError(t, err)
	found, names := map[string]int{}, map[string]bool{}
	for _, c := range all {
		require.False(t, names[c.name], c.name)
		require.NotContains(t, c.name, "\t")
		names[c.name] = true
		found[c.class]++
		file := c.edits[0].file
		text, err := c.edits[0].apply(files[file])
		require.NoError(t, err, c.name)
		require.NotEqual(t, files[file], text, c.name)
		if filepath.Ext(file) == ".go" {
			_, err = parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
			require.NoError(t, err, c.name)
		}
	}
	for _, p := range parts {
		if p.name != "" {
			require.Greater(t, found[p.name], 100, p.name)
			t.Logf("%s: %d", p.name, found[p.name])
		}
	}
}

// The seed determines the order; a change elsewhere does not reorder the mutants.
func TestASeedFixesTheOrder(t *testing.T) {
	order := func(seed string, files map[string]string) (names []string) {
		all, err := candidates(seed, files)
		require.NoError(t, err)
		for _, c := range all {
			names = append(names, c.name)
		}
		return names
	}
	const one = "package p\n\nfunc f() {\n\tg(1, 2, 3)\n\th(a < b)\n}\n"
	first := order("s", map[string]string{"f.go": one})
	require.Len(t, first, 11)
	require.Equal(t, first, order("s", map[string]string{"f.go": one}))
	require.NotEqual(t, first, order("t", map[string]string{"f.go": one}))
	var still []string
	for _, name := range order("s", map[string]string{"f.go": strings.Replace(one, "func", "func e() { i() }\n\nfunc", 1), "g.go": "package p\n\nvar x = 5\n"}) {
		if strings.HasPrefix(name, "f.go f: ") {
			still = append(still, name)
		}
	}
	require.Equal(t, first, still)
}

// Drawn mutants compile, since all others are skipped. A larger sample begins with the smaller
// sample of the same seed.
func TestADrawnMutantCompiles(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n",
		"m.go":   "package m\n\nfunc f(s string) (string, error) {\n\tx := 1\n\tx = x + 2\n\treturn s + \"x\", nil\n}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	every := regexp.MustCompile("")
	_, err := draw(t.Context(), root, "seed", 100, every)
	require.ErrorContains(t, err, "6 of 8 mutants compile")
	list, err := draw(t.Context(), root, "seed", 6, every)
	require.NoError(t, err)
	for _, m := range list {
		require.NotContains(t, m.name, "- \"x\"")
	}
	fewer, err := draw(t.Context(), root, "seed", 2, every)
	require.NoError(t, err)
	require.Equal(t, list[:2], fewer)
}

func TestADrawnMutantIsAskedOfItsServer(t *testing.T) {
	for file, want := range map[string][3]string{
		"options.go":                                        {".", "providers/redis", "redis"},
		"internal/engine/renewal.go":                        {"internal/engine", "providers/redis", "redis"},
		"internal/engine/handover.go":                       {"internal/engine", "providers/redis", "redis"},
		"abstractions/providerkit/cas/records.go":           {"abstractions/providerkit/cas", "providers/etcd", "etcd"},
		"abstractions/providerkit/batch/do.go":              {"abstractions/providerkit/batch", "providers/redis", "redis"},
		"abstractions/providerkit/rules.go":                 {"abstractions/providerkit", "providers/sql/sqlite", "sqlite"},
		"providers/redis/internal/node/list.go":             {"providers/redis/internal/node", "providers/redis", "redis"},
		"providers/redis/internal/script/scripts/renew.lua": {"providers/redis", "providers/redis", "redis"},
		"providers/sql/postgres/statements/renew.sql":       {"providers/sql/postgres", "providers/sql/postgres", "postgres"},
		"providers/sql/dialect/rows.go":                     {"providers/sql/dialect", "providers/sql/sqlite", "sqlite"},
		"providers/etcd/store.go":                           {"providers/etcd", "providers/etcd", "etcd"},
	} {
		a := realArea("../..", file)
		require.Equal(t, want, [3]string{a.layers[0].folder, a.layers[1].folder, a.busy}, file)
		require.Contains(t, a.layers[2].run, a.busy, file)
	}
	for _, file := range []string{"providers/redis/internal/redlock/vote.go", "providers/sql/mysql/backend.go", "providers/redis/internal/script/scripts/redlock/vote.lua", "chaos/plan.go"} {
		require.Empty(t, partOf(file), file)
	}
}

func TestResultsAreOfOneCommit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.tsv")
	list := []*mutant{{name: "a"}, {name: "b"}}
	k, err := readResults(file)
	require.NoError(t, err)
	k.reset("commit 1", list, false)
	k.results["a"] = [3]result{{"noticed", "TestX"}}
	require.NoError(t, k.write())

	k, err = readResults(file)
	require.NoError(t, err)
	k.reset("commit 1, 2 mutants", list, true)
	require.Equal(t, results{"a": {{"noticed", "TestX"}}, "b": {}}, k.results, "a sample has its rows at once")
	require.NoError(t, k.write())
	k, err = readResults(file)
	require.NoError(t, err)
	require.Equal(t, "commit 1, 2 mutants", k.head)
	k.reset("commit 12", list, false)
	require.Empty(t, k.results)

	require.NoError(t, os.WriteFile(file, []byte("a\tnoticed TestX\tnone\tnone\n"), 0o600))
	_, err = readResults(file)
	require.ErrorContains(t, err, "does not begin with the commit")
}

func TestShares(t *testing.T) {
	// The example of 81 of 263 is in R. G. Newcombe, Statistics in Medicine 17 (1998), p. 861, table I.
	low, high := wilson(81, 263)
	require.InDelta(t, 0.2553, low, 0.0001)
	require.InDelta(t, 0.3662, high, 0.0001)

	all := results{
		"trust.go f: a": {{"noticed", "T"}, {"missed", ""}, {"missed", ""}},
		"trust.go f: b": {{"undecided", timeLimit}, {"missed", ""}, {"missed", ""}},
		"trust.go f: c": {{"missed", ""}, {}, {}},
		"trust.go f: d": {},
	}
	mutants, by := all.shares(func(string) bool { return true })
	require.Equal(t, 4, mutants)
	require.Equal(t, [4]share{{1, 1, 3}, {0, 0, 2}, {0, 0, 2}, {1, 0, 2}}, by, "undecided counts as unnoticed")
	require.Equal(t, "1 of 3: 33 % (6 to 79), 1 undecided", by[0].String())

	_, err := samplePage("commit 1", all, map[string]string{"trust.go f: a": "it is not"})
	require.ErrorContains(t, err, "is noticed")
	_, err = samplePage("commit 1", all, map[string]string{"trust.go f: c": "the same"})
	require.ErrorContains(t, err, "more than 5 %")
}

// Each equivalent mutant is in the stored sample.
func TestEquivalentsAreOfTheSample(t *testing.T) {
	reasons, err := equivalents(equivalentsText)
	require.NoError(t, err)
	drawn, err := readResults("sample.tsv")
	require.NoError(t, err)
	for name := range reasons {
		require.Contains(t, drawn.results, name)
	}
	_, err = samplePage(drawn.head, drawn.results, reasons)
	require.NoError(t, err)
	_, err = equivalents("a name without a reason\n")
	require.Error(t, err)
}

// A drawn mutant is noticed if a test fails, and undecided if the tests reach the time limit.
func TestTheTimeLimitLeavesADrawnMutantUndecided(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.com/m\n\ngo 1.26\n",
		"m.go":      "package m\n\nfunc count() (n int) {\n\tfor n < 5 {\n\t\tn++\n\t}\n\treturn n\n}\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestCount(t *testing.T) {\n\tif count() != 5 {\n\t\tt.Fatal()\n\t}\n}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	r := &runner{root: root, limit: time.Second, unchanged: map[tests]func() (time.Duration, error){}}
	r.file = resultFile{results{}, filepath.Join(root, "sample.tsv"), "commit 1"}
	for line, want := range map[string]result{
		"\tfor n <= 5 {":  {"noticed", "TestCount"},
		"\tfor n < 6-1 {": {"missed", ""},
		"\tfor true {":    {"undecided", timeLimit},
	} {
		m := &mutant{name: line, asked: &area{busy: "m", layers: [3]tests{ownTests(".")}}, edits: []edit{{file: "m.go", line: 4, old: []string{"for n < 5 {"}, new: []string{line}}}}
		require.NoError(t, r.runMutant(t.Context(), m, layers[0], false))
		require.Equal(t, want, r.result(m, 0), line)
	}
}
