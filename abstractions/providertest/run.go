package providertest

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// check is one promise.
type check struct {
	name string
	run  func(e *env)
	// waits says that the check spends its time waiting for leases to run out,
	// so that it is started early and runs beside the others.
	waits bool
	// needs names the field of Harness that the check can't do without, if any.
	needs string
}

// checks returns all of them in the order in which they run.
func checks() []check {
	return slices.Concat(
		leakChecks, // first, while nothing else runs
		expiryChecks,
		acquireChecks, renewChecks, releaseChecks, breakChecks, inspectChecks,
		tokenChecks, nameChecks, limitChecks, contextChecks, outageChecks, closeChecks,
		capabilityChecks, batchChecks, waiterChecks, listerChecks, historyChecks,
		concurrencyChecks, modelChecks,
		managerTrustChecks, managerReleaseChecks, managerWaitingChecks, managerEventChecks,
	)
}

// Run checks the provider against the contract, one subtest for each sentence.
// All checks have ended when it returns, so what the harness needs may be
// closed then.
func Run(t *testing.T, h Harness) {
	if h.New == nil {
		t.Fatal("providertest: Harness.New is nil: it opens the provider")
	}
	h = h.withDefaults()
	all := checks()
	for _, name := range h.unknown(all) {
		t.Errorf("providertest: Except names %q, which is no check", name)
	}
	side := &sideBySide{slots: make(chan struct{}, h.Parallel)}
	ran := 0
	var left []string
	for _, c := range all {
		if !h.has(c.needs) {
			left = append(left, c.name+" (no Harness."+c.needs+")")
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if reason, ok := h.Except[c.name]; ok {
				t.Skipf("EXCEPTION: %s", reason)
			}
			ran++
			h.start(t, c, side)
		})
	}
	side.Wait()
	t.Logf("providertest: %d checks, %d run, %d excepted", len(all), ran, len(h.Except))
	for _, name := range slices.Sorted(maps.Keys(h.Except)) {
		t.Logf("providertest: EXCEPTION %s: %s", name, h.Except[name])
	}
	if len(left) > 0 {
		t.Logf("providertest: left out: %s", strings.Join(left, ", "))
	}
}

// unknown returns the exceptions that are about no check.
func (h Harness) unknown(all []check) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(h.Except)) {
		if !slices.ContainsFunc(all, func(c check) bool { return c.name == name }) {
			names = append(names, name)
		}
	}
	return names
}

func (h Harness) has(field string) bool {
	switch field {
	case "":
		return true
	case "Forget":
		return h.Forget != nil
	case "Unreachable":
		return h.Unreachable != nil
	case "Virtual":
		return h.Virtual
	}
	panic("providertest: no such field: " + field)
}

// sideBySide are the checks that wait.
type sideBySide struct {
	sync.WaitGroup
	slots chan struct{}
}

// start runs a check. One that waits gets a goroutine at once and a parallel
// subtest that waits for it: go test's own limit, the number of processors,
// would have most of them queue for no reason.
func (h Harness) start(t *testing.T, c check, side *sideBySide) {
	switch {
	case h.Virtual:
		synctest.Test(t, func(t *testing.T) { h.run(t, c) })
	case c.waits:
		done := make(chan struct{})
		side.Go(func() {
			defer close(done)
			side.slots <- struct{}{}
			defer func() { <-side.slots }()
			h.run(t, c)
		})
		t.Parallel()
		<-done
	default:
		h.run(t, c)
	}
}

// run runs a check and its clean-up to their end. It returns although FailNow
// has ended the check, so that the caller's goroutine goes on.
func (h Harness) run(t testing.TB, c check) {
	g := newGuard(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer g.end()
		c.run(newEnv(g, h, c.name))
	}()
	<-done
}
