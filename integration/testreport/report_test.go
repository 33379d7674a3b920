package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var modules = []string{"ex.org/lease", "ex.org/lease/providers/sql"}

// events returns an event of go test -json for each line "action package [test]".
func events(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		f := append(strings.Fields(line), "")
		b.WriteString(`{"Action":"` + f[0] + `","Package":"` + f[1] + `","Test":"` + f[2] + `"}` + "\n")
	}
	return b.String()
}

// others returns the line of a passed test for each backend except the given ones.
func others(except ...string) (lines []string) {
	for _, name := range backends {
		if !slices.Contains(except, name) {
			lines = append(lines, "pass ex.org/lease/z Test_"+name)
		}
	}
	return lines
}

func reportOf(t *testing.T, steps string, lines ...string) (string, bool) {
	t.Helper()
	var out bytes.Buffer
	ok, err := report(&out, modules, steps, []byte(events(lines...)))
	require.NoError(t, err)
	return out.String(), ok
}

// A later part of a run may lack the servers of an earlier part. A skip in the later part does not hide a pass in the earlier
// part, but a failure counts.
func TestALaterSkipHidesNoPass(t *testing.T) {
	before := "pass ex.org/lease/providers/consul TestConformance"
	text, ok := reportOf(t, "", append(others("consul"), before, "run ex.org/lease/providers/consul TestConformance", "skip ex.org/lease/providers/consul TestConformance")...)
	require.True(t, ok)
	require.NotContains(t, text, "skipped: ex.org")
	_, ok = reportOf(t, "", append(others("consul"), before, "run ex.org/lease/providers/consul TestConformance", "fail ex.org/lease/providers/consul TestConformance")...)
	require.False(t, ok)
	_, ok = reportOf(t, "", append(others("consul"), before, "run ex.org/lease/providers/consul TestConformance")...)
	require.False(t, ok, "it never ended")
}

func TestTableByModuleAndBackend(t *testing.T) {
	text, ok := reportOf(t, "lint\tok\t12\n", append(others("memory", "postgres", "sqlite"),
		"start ex.org/lease/abstractions",
		"run ex.org/lease/abstractions TestTrust", "pass ex.org/lease/abstractions TestTrust",
		"pass ex.org/lease/abstractions",
		"pass ex.org/lease/providers/memory TestConformance",
		"pass ex.org/lease/providers/sql TestMigrate/sqlite",
		"pass ex.org/lease/providers/sql TestPostgres_ListenAfterSQLite",
		"skip ex.org/lease/providers/sql TestPostgres_Old",
		"skip ex.org/lease/recipes", // a package without test files
	)...)
	require.True(t, ok)
	require.Equal(t, `
module         backend     packages  passed  failed  skipped
(root)         -           1         1       0       0
(root)         blob        1         1       0       0
(root)         cluster     1         1       0       0
(root)         consul      1         1       0       0
(root)         cosmos      1         1       0       0
(root)         etcd        1         1       0       0
(root)         kubernetes  1         1       0       0
(root)         mariadb     1         1       0       0
(root)         memory      1         1       0       0
(root)         redis       1         1       0       0
(root)         redlock     1         1       0       0
(root)         s3          1         1       0       0
(root)         sentinel    1         1       0       0
(root)         sqlserver   1         1       0       0
providers/sql  postgres    1         1       0       1
providers/sql  sqlite      1         1       0       0

step  result  seconds
lint  ok      12

skipped: ex.org/lease/providers/sql TestPostgres_Old
17 passed, 0 failed, 1 skipped
`, text)
}

// The skipped checks of a suite are counted one by one, and reported on one line.
func TestSkipsOfASuiteAreOneLine(t *testing.T) {
	lines := []string{"pass ex.org/lease/providers/redis TestConformanceRedis", "skip ex.org/lease/providers/redis TestServers/old"}
	for i := range 7 {
		lines = append(lines, fmt.Sprintf("skip ex.org/lease/providers/redis TestConformanceRedis/Check%d", i))
	}
	text, ok := reportOf(t, "", append(others("redis"), lines...)...)
	require.True(t, ok)
	require.Contains(t, text, "\nskipped: ex.org/lease/providers/redis TestConformanceRedis: 7 subtests\nskipped: ex.org/lease/providers/redis TestServers/old\n")
	require.Contains(t, text, " passed, 0 failed, 8 skipped\n")
}

// The name of a test has priority over the name of its package. If a name contains several backends, the first counts.
func TestBackendOf(t *testing.T) {
	const redis = "ex.org/lease/providers/redis"
	for name, want := range map[string]string{
		"TestReply":                         "redis",
		"TestConformanceRedis":              "redis",
		"TestConformanceRedlock3":           "redlock",
		"TestConformanceRedlock3/Acquire":   "redlock",
		"TestTrap_T41_RedlockOverRedis":     "redlock",
		"TestConformanceCluster":            "cluster",
		"TestSentinelFailoverLosesTheLease": "sentinel",
		"TestVerbs/sentinel":                "sentinel",
		"TestRedisServers/redlock":          "redis",
	} {
		require.Equal(t, want, backendOf(test{redis, name}), name)
	}
	require.Equal(t, "redis", backendOf(test{redis + "/internal/redistest", "TestEverySlotIsServed"}))
	require.Equal(t, "redis", backendOf(test{"ex.org/lease/bench", "TestAdaptersExcludeRedis"}))
	require.Equal(t, noBackend, backendOf(test{"ex.org/lease/abstractions", "TestTrust"}))
}

func TestFailures(t *testing.T) {
	passing := "pass ex.org/lease/a TestA"
	for name, c := range map[string]struct {
		lines  []string
		steps  string
		says   string
		passed int // besides a test for each backend
	}{
		"a test": {
			lines:  []string{passing, "fail ex.org/lease/a TestB", "fail ex.org/lease/a"},
			passed: 1, says: "FAILED: ex.org/lease/a TestB",
		},
		"a test that never ended": {
			lines:  []string{passing, "run ex.org/lease/a TestB", "fail ex.org/lease/a"},
			passed: 1, says: "NEVER ENDED: ex.org/lease/a TestB",
		},
		"a package that did not build": {
			lines:  []string{passing, "start ex.org/lease/b", "fail ex.org/lease/b"},
			passed: 1, says: "FAILED: ex.org/lease/b",
		},
		"a run that was cut off": {
			lines:  []string{passing, "start ex.org/lease/b"},
			passed: 1, says: "NEVER ENDED: ex.org/lease/b",
		},
		"a step": {
			lines: []string{passing}, steps: "lint\tfailed\t1\n",
			passed: 1, says: "FAILED: lint\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, ok := reportOf(t, c.steps, append(others(), c.lines...)...)
			require.False(t, ok)
			require.Regexp(t, fmt.Sprintf(`\n%d passed, 1 failed, 0 skipped\n$`, c.passed+len(backends)), text)
			require.Contains(t, text, c.says)
		})
	}
}

// The failures come last, since only the end of a log may be kept.
func TestWhatFailedComesLast(t *testing.T) {
	output := func(name, text string) string {
		return fmt.Sprintf(`{"Action":"output","Package":"ex.org/lease/a","Test":%q,"Output":%q}`+"\n", name, text)
	}
	long := output("TestB", "=== RUN   TestB\n") + output("TestC", "of another\n")
	for n := range 100 {
		long += output("TestB", fmt.Sprintf("line %d\n", n))
	}
	var out bytes.Buffer
	ok, err := report(&out, modules, "lint\tfailed\t1\n", []byte(long+
		events(append(others(), "pass ex.org/lease/a TestC", "skip ex.org/lease/a TestZ", "fail ex.org/lease/a TestB")...)))
	require.NoError(t, err)
	require.False(t, ok)
	_, tail, _ := strings.Cut(out.String(), "skipped: ex.org/lease/a TestZ\n")
	var lines []string
	for n := 80; n < 100; n++ {
		lines = append(lines, fmt.Sprintf("line %d", n))
	}
	require.Equal(t, strings.Join(lines, "\n")+"\nFAILED: ex.org/lease/a TestB\nFAILED: lint\n"+
		fmt.Sprintf("%d passed, 2 failed, 1 skipped\n", 1+len(backends)), tail)
}

func TestBackendsThatWereLeftOut(t *testing.T) {
	for missing, lines := range map[string][]string{
		"postgres": append(others("postgres"), "skip ex.org/lease/a TestPostgres"),
		"redlock":  append(others("redlock"), "pass ex.org/lease/providers/redis TestConformanceRedis", "pass ex.org/lease/providers/redis TestReply"),
	} {
		text, ok := reportOf(t, "", lines...)
		require.False(t, ok)
		require.Contains(t, text, "FAILED: no test passed against "+missing)
		require.Contains(t, text, " passed, 1 failed, ")
	}
	text, ok := reportOf(t, "")
	require.False(t, ok)
	require.Contains(t, text, fmt.Sprintf("0 passed, %d failed, 0 skipped", len(backends)))
}

func TestBadInput(t *testing.T) {
	_, err := report(&bytes.Buffer{}, modules, "", []byte(events("run a")+"FAIL ex.org/lease\n"))
	require.ErrorContains(t, err, "no event of go test -json")
	_, err = run([]string{"one"})
	require.ErrorContains(t, err, "want a file of steps")
}
