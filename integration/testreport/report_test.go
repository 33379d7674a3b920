package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var modules = []string{"ex.org/lease", "ex.org/lease/providers/sql"}

// events writes one line per "action package [test]".
func events(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		f := append(strings.Fields(line), "")
		b.WriteString(`{"Action":"` + f[0] + `","Package":"` + f[1] + `","Test":"` + f[2] + `"}` + "\n")
	}
	return b.String()
}

func reportOf(t *testing.T, steps, required string, lines ...string) (string, bool) {
	t.Helper()
	rep := newReport(modules)
	require.NoError(t, rep.readEvents(strings.NewReader(events(lines...))))
	require.NoError(t, rep.readSteps(steps))
	rep.require(strings.Fields(required))
	var out bytes.Buffer
	ok, err := rep.print(&out)
	require.NoError(t, err)
	return out.String(), ok
}

func closing(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func TestTableByModuleAndBackend(t *testing.T) {
	text, ok := reportOf(t, "lint\tok\t12\n", "memory postgres",
		"start ex.org/lease/abstractions",
		"run ex.org/lease/abstractions TestTrust", "pass ex.org/lease/abstractions TestTrust",
		"pass ex.org/lease/abstractions",
		"pass ex.org/lease/providers/memory TestConformance",
		"pass ex.org/lease/providers/sql TestMigrate/sqlite",
		"pass ex.org/lease/providers/sql TestPostgres_ListenAfterSQLite",
		"skip ex.org/lease/providers/sql TestPostgres_Old",
		"skip ex.org/lease/recipes", // a package without test files
	)
	require.True(t, ok)
	require.Equal(t, `
module         backend   packages  passed  failed  skipped
(root)         -         1         1       0       0
(root)         memory    1         1       0       0
providers/sql  postgres  1         1       0       1
providers/sql  sqlite    1         1       0       0

step  result  seconds
lint  ok      12

skipped: ex.org/lease/providers/sql TestPostgres_Old
5 passed, 0 failed, 1 skipped
`, text)
}

// What a test says comes before what its package says, and what is said first
// before what follows.
func TestBackendOf(t *testing.T) {
	const redis = "ex.org/lease/providers/redis"
	for test, want := range map[string]string{
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
		require.Equal(t, want, backendOf(redis, test), test)
		require.Contains(t, backends, want)
	}
	require.Equal(t, "redis", backendOf(redis+"/internal/redistest", "TestEverySlotIsServed"))
	require.Equal(t, "redis", backendOf("ex.org/lease/bench", "TestAdaptersExcludeRedis"))
	require.Equal(t, noBackend, backendOf("ex.org/lease/abstractions", "TestTrust"))
}

func TestFailures(t *testing.T) {
	passing := "pass ex.org/lease/a TestA"
	for name, c := range map[string]struct {
		lines           []string
		steps, required string
		closing, says   string
	}{
		"a test": {
			lines:   []string{passing, "fail ex.org/lease/a TestB", "fail ex.org/lease/a"},
			closing: "1 passed, 1 failed, 0 skipped", says: "FAILED: ex.org/lease/a TestB",
		},
		"a test that never ended": {
			lines:   []string{passing, "run ex.org/lease/a TestB", "fail ex.org/lease/a"},
			closing: "1 passed, 1 failed, 0 skipped", says: "NEVER ENDED: ex.org/lease/a TestB",
		},
		"a package that did not build": {
			lines:   []string{passing, "start ex.org/lease/b", "fail ex.org/lease/b"},
			closing: "1 passed, 1 failed, 0 skipped",
		},
		"a run that was cut off": {
			lines:   []string{passing, "start ex.org/lease/b"},
			closing: "1 passed, 1 failed, 0 skipped",
		},
		"a step": {
			lines: []string{passing}, steps: "lint\tfailed\t1\n",
			closing: "1 passed, 1 failed, 0 skipped", says: "FAILED",
		},
		"a required backend that only skipped": {
			lines: []string{passing, "skip ex.org/lease/a TestPostgres"}, required: "postgres",
			closing: "1 passed, 1 failed, 1 skipped", says: "FAILED: no test passed against postgres",
		},
		"a required backend whose package only ran on another": {
			lines:   []string{"pass ex.org/lease/providers/redis TestConformanceRedis", "pass ex.org/lease/providers/redis TestReply"},
			closing: "2 passed, 1 failed, 0 skipped", says: "FAILED: no test passed against redlock", required: "redis redlock",
		},
		"nothing at all": {closing: "0 passed, 1 failed, 0 skipped", says: "FAILED: no test ran"},
	} {
		t.Run(name, func(t *testing.T) {
			text, ok := reportOf(t, c.steps, c.required, c.lines...)
			require.False(t, ok)
			require.Equal(t, c.closing, closing(text))
			require.Contains(t, text, c.says)
		})
	}
}

func TestBadInput(t *testing.T) {
	rep := newReport(modules)
	require.ErrorContains(t, rep.readEvents(strings.NewReader("FAIL ex.org/lease\n")), "line 1")
	require.ErrorContains(t, rep.readSteps("lint ok"), "not a step")
	require.ErrorContains(t, rep.readSteps("lint\tok\tsoon\n"), "not a step")
}
