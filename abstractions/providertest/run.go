package providertest

import (
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// check is one promise.
type check struct {
	name string
	// waits says that the check spends its time waiting for leases to run out.
	waits bool
	// needs names the field of Harness that the check can't do without, if any.
	needs string
	run   func(e *env)
}

// long names the checks that -short leaves out.
var long = []string{"Manager_Trap_T58_AttemptsLeaveTimeForOthers", "Manager_Trap_T66_BatchTellsOfEachLease", "Manager_Trap_T72_LoopStarvesNobody"}

// checks returns all of them.
func checks() []check {
	return slices.Concat(
		leakChecks, expiryChecks,
		acquireChecks, holderChecks, breakChecks,
		tokenChecks, nameChecks, limitChecks, contextChecks, closeChecks,
		capabilityChecks, batchChecks, waiterChecks, waitersChecks, listerChecks, historyChecks,
		discretionChecks, concurrencyChecks, recordsChecks, modelChecks, httpChecks,
		managing(managerTrustChecks, managerReleaseChecks, managerWaitingChecks, managerEventChecks), managerChecks,
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
	h.runAll(t, all[:len(leakChecks)])
	t.Parallel()
	left := h.runAll(t, all[len(leakChecks):])
	t.Logf("providertest: %d checks, %d run, %d excepted", len(all), len(all)-len(left)-len(h.Except), len(h.Except))
	for _, name := range slices.Sorted(maps.Keys(h.Except)) {
		t.Logf("providertest: EXCEPTION %s: %s", name, h.Except[name])
	}
	if len(left) > 0 {
		t.Logf("providertest: left out: %s", strings.Join(left, ", "))
	}
}

// slots are for the checks of all suites of the process. Half of the processors are left to
// the servers.
var slots = make(chan struct{}, max(2, runtime.GOMAXPROCS(0)/2))

// runAll runs checks side by side, those that wait first, and returns those that the
// harness leaves out.
func (h Harness) runAll(t *testing.T, all []check) (left []string) {
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
		if c.needs != "" && reflect.ValueOf(h).FieldByName(c.needs).IsZero() {
			left = append(left, c.name+" (no Harness."+c.needs+")")
			continue
		}
		slots <- struct{}{}
		free := sync.OnceFunc(func() { <-slots })
		running.Go(func() {
			defer free()
			t.Run(c.name, func(t *testing.T) {
				if reason, ok := h.Except[c.name]; ok {
					t.Skipf("EXCEPTION: %s", reason)
				}
				if testing.Short() && slices.Contains(long, c.name) {
					t.Skip("-short: this check takes seconds of computing")
				}
				if h.Virtual {
					synctest.Test(t, func(t *testing.T) { h.run(t, c, free) })
				} else {
					h.run(t, c, free)
				}
			})
		})
	}
	running.Wait()
	return left
}

// unknown returns the exceptions that are about no check.
func (h Harness) unknown(all []check) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(h.Except)), func(name string) bool {
		return slices.ContainsFunc(all, func(c check) bool { return c.name == name })
	})
}

// run runs a check to its end. It returns although FailNow has ended the check, so that
// the caller's goroutine goes on. A check that waits frees its slot when its clients are
// open.
func (h Harness) run(t testing.TB, c check, free func()) {
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
}
