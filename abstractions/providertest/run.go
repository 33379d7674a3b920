package providertest

import (
	"maps"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/distributedleasing/leasing/abstractions/providertest/internal/abilities"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/managersuite"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/model"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// checks returns the checks of the suite.
func checks() []suite.Check {
	return slices.Concat(
		leakChecks, expiryChecks,
		acquireChecks, holderChecks, breakChecks,
		tokenChecks, nameChecks, limitChecks, contextChecks, closeChecks,
		capabilityChecks, discretionChecks, concurrencyChecks, recordsChecks, httpChecks,
		abilities.Checks, model.Checks, managersuite.Checks,
	)
}

// Run checks the provider against the contract, in one subtest for each check. Under -short it leaves out a
// few checks that take long, and sends fewer random requests to a server. It checks for leaked goroutines
// first and then calls t.Parallel, so that several suites run concurrently. So the test must not have
// called t.Parallel or t.Setenv before. When Run returns all checks have ended, and the resources of the
// harness may be closed.
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

// slots bounds the number of checks that run at a time, across all suites of the process. Half of
// the processors are left to the servers.
var slots = make(chan struct{}, max(2, runtime.GOMAXPROCS(0)/2))

// runAll runs checks side by side, and starts with the checks that wait. A check that this harness or its
// provider leaves out is a skipped subtest.
func (h Harness) runAll(t *testing.T, all []suite.Check, counts *outcomes) {
	var running sync.WaitGroup
	all = slices.SortedStableFunc(slices.Values(all), func(a, b suite.Check) int {
		switch {
		case a.Waits == b.Waits:
			return 0
		case a.Waits:
			return -1
		}
		return 1
	})
	for _, c := range all {
		slots <- struct{}{}
		free := sync.OnceFunc(func() { <-slots })
		running.Go(func() {
			defer free()
			t.Run(c.Name, func(t *testing.T) {
				if reason, ok := h.Except[c.Name]; ok {
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
func (h Harness) runOne(t *testing.T, c suite.Check, free func()) (leftOut string) {
	switch {
	case c.Needs != "" && reflect.ValueOf(h).FieldByName(c.Needs).IsZero():
		return "it needs Harness." + c.Needs
	case testing.Short() && c.Long:
		return "-short: make test-all runs this check"
	case h.Virtual:
		synctest.Test(t, func(t *testing.T) { leftOut = h.backend().Run(t, c, free) })
		return leftOut
	case c.Repeats:
		return suite.RetryOnStall(t, suite.WatchStalls, func(t testing.TB) string { return h.backend().Run(t, c, free) })
	}
	return h.backend().Run(t, c, free)
}

// unknown returns the exceptions that name no check.
func (h Harness) unknown(all []suite.Check) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(h.Except)), func(name string) bool {
		return slices.ContainsFunc(all, func(c suite.Check) bool { return c.Name == name })
	})
}
