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

// checks returns all of them in the order in which they run.
func checks() []check {
	return slices.Concat(
		leakChecks, expiryChecks,
		acquireChecks, holderChecks, breakChecks,
		tokenChecks, nameChecks, limitChecks, contextChecks, closeChecks,
		capabilityChecks, batchChecks, waiterChecks, listerChecks, historyChecks,
		concurrencyChecks, modelChecks,
		managing(managerTrustChecks, managerReleaseChecks, managerWaitingChecks, managerEventChecks), managerChecks,
	)
}

// Run checks the provider against the contract, one subtest for each sentence. It looks
// for leaks first and then calls t.Parallel, so that suites wait side by side. All checks
// have ended when it returns: what the harness needs may be closed then.
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

// runAll runs checks side by side, and returns those that the harness leaves out.
func (h Harness) runAll(t *testing.T, all []check) (left []string) {
	var running sync.WaitGroup
	for _, c := range all {
		if c.needs != "" && reflect.ValueOf(h).FieldByName(c.needs).IsZero() {
			left = append(left, c.name+" (no Harness."+c.needs+")")
			continue
		}
		running.Go(func() {
			t.Run(c.name, func(t *testing.T) {
				if reason, ok := h.Except[c.name]; ok {
					t.Skipf("EXCEPTION: %s", reason)
				}
				if h.Virtual {
					synctest.Test(t, func(t *testing.T) { h.run(t, c) })
				} else {
					h.run(t, c)
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

// slots are for the checks of all suites of the process. Those that wait need one only
// while they open their clients. Half of the processors are left to the servers.
var slots = make(chan struct{}, max(2, runtime.GOMAXPROCS(0)/2))

// run runs a check and its clean-up to their end. It returns although FailNow
// has ended the check, so that the caller's goroutine goes on.
func (h Harness) run(t testing.TB, c check) {
	g := newGuard(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer g.end()
		slots <- struct{}{}
		free := sync.OnceFunc(func() { <-slots })
		defer free()
		e := newEnv(g, h, c.name)
		if c.waits {
			free()
		}
		c.run(e)
	}()
	<-done
}
