package providertest

import (
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// check is one promise.
type check struct {
	name string
	// waits says that the check spends its time waiting for leases to run out.
	waits bool
	// needs names the field of Harness that the check requires, or is "".
	needs string
	run   func(e *env)
}

// isLong reports whether -short leaves a check out: it computes for seconds, or is one of the five dozen checks
// of a manager in real time.
func isLong(name string) bool {
	switch name {
	case "Manager_Trap_T58_AttemptsLeaveTimeForOthers", "Manager_Trap_T66_BatchTellsOfEachLease", "Manager_Trap_T72_LoopStarvesNobody":
		return true
	}
	return strings.HasPrefix(name, "Manager_RealTime_")
}

// checks returns the checks of the suite.
func checks() []check {
	return slices.Concat(
		leakChecks, expiryChecks,
		acquireChecks, holderChecks, breakChecks,
		tokenChecks, nameChecks, limitChecks, contextChecks, closeChecks,
		capabilityChecks, batchChecks, waiterChecks, waitersChecks, listerChecks, historyChecks,
		discretionChecks, concurrencyChecks, recordsChecks, modelChecks, httpChecks,
		managing(managerTrustChecks, managerReleaseChecks, managerWaitingChecks, managerEventChecks), managerChecks,
		inRealTime(true, managerRealTrustChecks, managerRealKeepingChecks, managerRealEndingChecks, managerRealWaitingChecks, managerRealTellingChecks,
			managerRealLossChecks, managerRealPauseChecks, managerRealTrustedCloseChecks),
		inRealTime(false, managerRealSettingChecks, managerRealErrorChecks, managerRealOperatorChecks, managerRealObserverChecks, managerRealClosingChecks),
	)
}

// Run checks the provider against the contract, one subtest for each sentence. Under -short it leaves out a
// few checks that take long, and sends fewer random requests to a server. It checks for
// leaked goroutines first and then calls t.Parallel, so that several suites run
// concurrently. So the test must not have called t.Parallel or t.Setenv before. When Run
// returns all checks have ended, and the resources of the harness may be closed.
func Run(t *testing.T, h Harness) {
	if h.New == nil {
		t.Fatal("providertest: Harness.New is nil: it opens the provider")
	}
	h = h.withDefaults()
	all := checks()
	for _, name := range h.unknown(all) {
		t.Errorf("providertest: Except names %q, which is no check", name)
	}
	var counts outcomes
	h.runAll(t, all[:len(leakChecks)], &counts)
	t.Parallel()
	h.runAll(t, all[len(leakChecks):], &counts)
	t.Logf("providertest: %d checks, %d run, %d excepted, %d skipped", len(all), counts.run.Load(), counts.excepted.Load(), counts.skipped.Load())
}

// outcomes counts the checks that ran, were excepted or were skipped.
type outcomes struct{ run, excepted, skipped atomic.Int64 }

// slots are for the checks of all suites of the process. Half of the processors are left to
// the servers.
var slots = make(chan struct{}, max(2, runtime.GOMAXPROCS(0)/2))

// runAll runs checks side by side, and starts with the checks that wait. A check that this harness or its
// provider leaves out is a skipped subtest.
func (h Harness) runAll(t *testing.T, all []check, counts *outcomes) {
	var running sync.WaitGroup
	all = slices.SortedStableFunc(slices.Values(all), func(a, b check) int {
		switch {
		case a.waits == b.waits:
			return 0
		case a.waits:
			return -1
		}
		return 1
	})
	for _, c := range all {
		slots <- struct{}{}
		free := sync.OnceFunc(func() { <-slots })
		running.Go(func() {
			defer free()
			t.Run(c.name, func(t *testing.T) {
				if reason, ok := h.Except[c.name]; ok {
					counts.excepted.Add(1)
					t.Skipf("EXCEPTION: %s", reason)
				}
				if reason := h.runOne(t, c, free); reason != "" {
					counts.skipped.Add(1)
					t.Skip(reason)
				}
				counts.run.Add(1)
			})
		})
	}
	running.Wait()
}

// runOne runs a check. It returns the reason if the check is left out, else "".
func (h Harness) runOne(t *testing.T, c check, free func()) (leftOut string) {
	switch {
	case c.needs != "" && reflect.ValueOf(h).FieldByName(c.needs).IsZero():
		return "it needs Harness." + c.needs
	case testing.Short() && isLong(c.name):
		return "-short: make test-all runs this check"
	case h.Virtual:
		synctest.Test(t, func(t *testing.T) { leftOut = h.run(t, c, free) })
		return leftOut
	case strings.HasPrefix(c.name, "Manager_RealTime_"):
		return tryOften(t, watchStalls, func(t testing.TB) string { return h.run(t, c, free) })
	}
	return h.run(t, c, free)
}

// unknown returns the exceptions that are about no check.
func (h Harness) unknown(all []check) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(h.Except)), func(name string) bool {
		return slices.ContainsFunc(all, func(c check) bool { return c.name == name })
	})
}

// run runs a check to its end, and returns the reason if the check has left itself out, else "". It
// returns although FailNow has ended the check, so that the caller's goroutine goes on. A check that waits
// frees its slot when its clients are open.
func (h Harness) run(t testing.TB, c check, free func()) (leftOut string) {
	g := newGuard(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer g.end()
		e := newEnv(g, h, c.name)
		if c.waits {
			free()
		}
		c.run(e)
	}()
	<-done
	return g.leftOut
}
