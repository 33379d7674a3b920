package torture

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
)

// Check names one of the checks.
type Check string

// The checks: see the package's documentation.
const (
	checkOverlap      Check = "overlap"
	checkTrust        Check = "trust"
	checkLinearizable Check = "linearizable"
	checkRules        Check = "rules"
	checkTokens       Check = "tokens"
	checkFence        Check = "fence"
	checkRenewal      Check = "renewal"
	checkLoss         Check = "loss"
	checkRelease      Check = "release"
	checkCleanup      Check = "cleanup"
	checkLiveness     Check = "liveness"
	checkEvents       Check = "events"
	checkMetadata     Check = "metadata"
	checkGhost        Check = "ghost"
	checkRefusal      Check = "refusal"
	checkAnswer       Check = "answer"
	checkHang         Check = "hang"
	checkLeak         Check = "leak"
	checkGrowth       Check = "growth"
	checkGoroutine    Check = "goroutine"
)

// Violation is a promise that was broken.
type Violation struct {
	Check Check
	Name  string
	At    time.Duration
	Text  string
}

func (v Violation) String() string {
	where := ""
	if v.Name != "" {
		where = v.Name + " "
	}
	return fmt.Sprintf("%s: %sat %s: %s", v.Check, where, seconds(v.At), v.Text)
}

// verification is a check of a history. Of the options it reads Workers, Patience, Plan,
// AssumptionsBroken, Votes, MaxSearchSteps and the numbers of Manager.
type verification struct {
	Options
	lateness  leasing.Lateness // the backend's: how late a lease may run out
	pushes    bool             // the backend wakes waiters
	h         *history
	end       time.Duration
	heedless  bool          // faults outlast the contexts of requests
	reach     time.Duration // for how long a fault may have consequences
	terms     map[string][]term
	found     []Violation
	undecided []string
}

// checks are those of a name's history, in this order. The strict ones can't be made where
// the run breaks what the provider assumes.
var checks = []struct {
	make   func(*named)
	strict bool
}{
	{(*named).overlaps, true},
	{(*named).trusts, false},
	{(*named).orders, true},
	{(*named).rules, true},
	{(*named).tokens, false},
	{(*named).fence, false},
	{(*named).renewals, false},
	{(*named).losses, false},
	{(*named).releases, false},
	{(*named).cleanups, true},
	{(*named).liveness, true},
	{(*named).events, false},
	{(*named).metadata, false},
	{(*named).ghosts, true},
	{(*named).unreleased, true},
	{(*named).answers, false},
	{(*named).hangs, false},
	{(*named).overdue, false},
}

// verify makes all checks but those of goroutines and memory, and returns the violations in
// the order in which they happened, and the names whose order was not found, nor found to be
// impossible, within the effort.
func (v verification) verify(h *history) (violations []Violation, undecided []string) {
	v.h, v.end, v.terms = h, h.end(), h.terms(&v.Options)
	for _, r := range v.Plan.Rules {
		v.heedless = v.heedless || r.Fault.Heedless
		v.reach = max(v.reach, r.Fault.Delay+r.Fault.Jitter)
	}
	v.reach += 2 * v.Manager.RequestTimeout
	for _, n := range v.byName() {
		for _, check := range checks {
			if !check.strict || !v.AssumptionsBroken {
				check.make(n)
			}
		}
	}
	v.kept()
	slices.SortStableFunc(v.found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Check, b.Check), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(v.found), v.undecided
}

// byName is what happened, name by name.
func (v *verification) byName() (all []*named) {
	operations, holds := grouped(v.h.Operations, func(o operation) string { return o.Name }), grouped(v.h.Holds, func(t hold) string { return t.Name })
	writes, waits := grouped(v.h.Writes, func(w write) string { return w.Name }), grouped(v.h.Waits, func(w wait) string { return w.Name })
	sights, notices := grouped(v.h.Sights, func(s sight) string { return s.Name }), grouped(v.h.Notices, func(e notice) string { return e.Name })
	for _, name := range v.h.names() {
		// Votes of a minority may be lost all the same.
		operations[name] = slices.DeleteFunc(operations[name], func(o operation) bool { return o.Vain && !v.Votes })
		n := &named{
			verification: v, name: name, operations: operations[name], holds: holds[name], writes: writes[name],
			waits: waits[name], sights: sights[name], notices: notices[name],
		}
		n.breaks = immediateBreaks(n.operations)
		all = append(all, n)
	}
	return all
}

func (v *verification) violated(check Check, name string, at time.Duration, format string, args ...any) {
	v.found = append(v.found, Violation{Check: check, Name: name, At: at, Text: fmt.Sprintf(format, args...)})
}

// named is what happened to one name.
type named struct {
	*verification
	name       string
	operations []operation
	holds      []hold
	writes     []write
	waits      []wait
	sights     []sight
	notices    []notice
	breaks     map[int64][]operation // that have, or may have, ended a lease at once, by its token
}

func (n *named) violated(check Check, at time.Duration, format string, args ...any) {
	n.verification.violated(check, n.name, at, format, args...)
}

// layers are those at which operations were seen.
var layers = []layer{layerClient, layerBackend}

// seenBy are the operations that one layer saw. Clients know nothing of the breaks
// that befall them: those are taken from below.
func seenBy(operations []operation, layer layer) (seen []operation) {
	for _, o := range operations {
		if o.Layer == layer || o.Verb == "break" && o.Layer == layerBackend {
			seen = append(seen, o)
		}
	}
	return seen
}

// grouped are the items of each name.
func grouped[T any](all []T, name func(T) string) map[string][]T {
	groups := map[string][]T{}
	for _, one := range all {
		groups[name(one)] = append(groups[name(one)], one)
	}
	return groups
}

// seconds is a time for people to read and to find on the timeline.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }
