package providertest

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSoundProviderPasses runs the suite on a provider without flaws, with most fields of Harness set.
func TestSoundProviderPasses(t *testing.T) {
	Run(t, harness(func(*fake) {}))
}

// TestBareProviderPasses runs the suite on a provider without optional abilities.
func TestBareProviderPasses(t *testing.T) {
	Run(t, Harness{Virtual: true, New: func(testing.TB) abstractions.Provider { return withoutAbilities{newServer()} }})
}

// TestChecksDetectFlaws breaks the provider in one way at a time and expects
// the checks for this flaw to fail.
func TestChecksDetectFlaws(t *testing.T) {
	t.Cleanup(leaked.Wait)
	for _, flaw := range allFlaws() {
		t.Run(flaw.name, func(t *testing.T) {
			h := harness(flaw.apply)
			h.Virtual = !flaw.real
			if flaw.real {
				h.Slack = 200 * time.Millisecond
			}
			for _, name := range flaw.failing {
				if checkNamed(t, name).Needs == "Advance" {
					h.Advance = func(p abstractions.Provider, d time.Duration) { p.(*fake).ahead.Add(int64(d)) }
				}
				failed, log := outcome(t, h, checkNamed(t, name))
				// Some checks depend on chance and on the scheduler. Such a check sometimes misses a flaw.
				for range 4 {
					if !failed {
						failed, log = outcome(t, h, checkNamed(t, name))
					}
				}
				assert.True(t, failed, "%s does not notice that %s\n%s", name, flaw.name, log)
			}
		})
	}
}

// TestEveryCheckDetectsAFlaw fails if there is a check that no flaw makes fail.
func TestEveryCheckDetectsAFlaw(t *testing.T) {
	// This check tests abstractions.As, and does not depend on the provider.
	detected := map[string]bool{"Trap_T64_NobodyLooksThroughAWrapper": true}
	for _, flaw := range allFlaws() {
		for _, name := range flaw.failing {
			detected[name] = true
		}
	}
	for name := range storeFlaws {
		detected[name] = true
	}
	for _, flaw := range httpFlaws {
		for _, name := range flaw.failing {
			detected[name] = true
		}
	}
	for _, c := range checks() {
		// The manager's checks detect flaws of package leasing: integration/mutants lists these flaws.
		ofTheManager := strings.HasPrefix(c.Name, "Manager_") && c.Name != "Manager_OverThisProvider"
		assert.True(t, detected[c.Name] || ofTheManager, "no flaw makes %s fail", c.Name)
	}
}

func checkNamed(t *testing.T, name string) suite.Check {
	t.Helper()
	all := checks()
	i := slices.IndexFunc(all, func(c suite.Check) bool { return c.Name == name })
	require.GreaterOrEqual(t, i, 0, "no check is called %q", name)
	return all[i]
}

// TestTrap_T194_AnOmittedCheckIsSkipped runs checks that the harness or the provider leaves out.
func TestTrap_T194_AnOmittedCheckIsSkipped(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		h := harness(func(*fake) {})
		h.Virtual, h.Forget, h.Except = virtual, nil, map[string]string{"Excepted": "because"}
		var counts outcomes
		var omitted *testing.T
		h.runAll(t, []suite.Check{
			{Name: "Runs", Run: func(*suite.Env) {}},
			{Name: "Excepted", Run: func(e *suite.Env) { e.Fail("it runs") }},
			{Name: "NeedsForget", Needs: "Forget", Run: func(e *suite.Env) { e.Fail("it runs") }},
			{Name: "LeavesItselfOut", Run: func(e *suite.Env) {
				omitted, _ = e.T.TB.(*testing.T)
				e.LeaveOut("not here")
			}},
		}, &counts)
		assert.Equal(t, []int64{1, 1, 2}, []int64{counts.run.Load(), counts.excepted.Load(), counts.skipped.Load()}, "run, excepted, skipped")
		assert.Equal(t, !virtual, omitted.Skipped(), "the subtest; in virtual time its parent")
	}
}

func TestExceptionsMustNameChecks(t *testing.T) {
	h := Harness{Except: map[string]string{"Trap_T13_LostReplyIsTriedAgain": "because", "Trap_T13": "misspelt", "": "nothing"}}
	assert.Equal(t, []string{"", "Trap_T13"}, h.unknown(checks()))
}

// TestRunEndsWithItsChecks shows that the waiting checks have ended and are cleaned up when Run
// returns, and that a missing field leaves out only the checks that need this field.
func TestRunEndsWithItsChecks(t *testing.T) {
	var opened, closed atomic.Int64
	Run(t, Harness{TTL: 20 * time.Millisecond, New: func(t testing.TB) abstractions.Provider {
		opened.Add(1)
		t.Cleanup(func() { closed.Add(1) })
		return newServer()
	}})
	assert.Equal(t, opened.Load(), closed.Load())
	needy := len(slices.DeleteFunc(checks(), func(c suite.Check) bool { return c.Needs == "" && !(testing.Short() && c.Long) }))
	assert.GreaterOrEqual(t, int(opened.Load()), len(checks())-needy)
}

// TestGuardCleansUpWhateverFails shows that all clean-ups run although the check and one of its clean-ups fail.
func TestGuardCleansUpWhateverFails(t *testing.T) {
	var steps []string
	h := Harness{New: func(testing.TB) abstractions.Provider { return newServer() }}.withDefaults()
	failed, _ := outcome(t, h, suite.Check{Name: "check", Run: func(e *suite.Env) {
		e.T.Cleanup(func() { steps = append(steps, "last") })
		e.T.Cleanup(func() { e.T.Fatal("clean-up") })
		e.T.Cleanup(func() { steps = append(steps, "first") })
		e.Error(e.T.Context().Err(), "the check")
		steps = append(steps, "not reached")
	}})
	assert.True(t, failed)
	assert.Equal(t, []string{"first", "last"}, steps)
}

func TestCheckNamesAreUnique(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range checks() {
		assert.False(t, seen[c.Name], c.Name)
		seen[c.Name] = true
		assert.True(t, c.Needs == "" || reflect.ValueOf(Harness{}).FieldByName(c.Needs).IsValid(), "%s needs %s", c.Name, c.Needs)
	}
}

// TestEachPromiseHasItsChecks compares a table of docs/proof.md with the promises of package leasing, the fields of
// Capabilities, and the checks.
func TestEachPromiseHasItsChecks(t *testing.T) {
	read := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
		require.NoError(t, err)
		return string(text)
	}
	_, table, found := strings.Cut(read("docs", "proof.md"), "## Each promise and its checks\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	exist, named := map[string]bool{}, map[string]bool{}
	for _, c := range checks() {
		exist[c.Name] = true
	}
	rows := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^\| (promise \d|\w[^|]*|`+"`[^`]+`"+`)[^|]* \| (.*) \|$`).FindAllStringSubmatch(table, -1) {
		rows[match[1]] = match[2]
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(match[2], -1) {
			if name := name[1]; strings.Contains(name, "_") {
				named[name] = true
			} else if reflect.ValueOf(Harness{}).FieldByName(name) == (reflect.Value{}) {
				named["Manager_RealTime_"+name] = true
			}
		}
	}
	for name := range named {
		assert.True(t, exist[name], "no check is called %q", name)
	}
	for name := range exist {
		assert.True(t, named[name] || !strings.HasPrefix(name, "Manager_RealTime_"), "%s stands beside no promise", name)
	}
	promises := regexp.MustCompile(`(?m)^//  (\d)\. `).FindAllStringSubmatch(read("doc.go"), -1)
	assert.Len(t, promises, 5)
	for _, promise := range promises {
		assert.Contains(t, rows["promise "+promise[1]], "`", "promise %s", promise[1])
	}
	for field := range reflect.TypeFor[abstractions.Capabilities]().Fields() {
		assert.Contains(t, rows["`Capabilities."+field.Name+"`"], "`", "Capabilities.%s", field.Name)
	}
}
