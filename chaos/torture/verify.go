package torture

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Check names one of the checks.
type Check string

// The checks: see the package's documentation.
const (
	CheckOverlap      Check = "overlap"
	CheckLinearizable Check = "linearizable"
	CheckTokens       Check = "tokens"
	CheckFence        Check = "fence"
	CheckLoss         Check = "loss"
	CheckGhost        Check = "ghost"
	CheckRefusal      Check = "refusal"
	CheckAnswer       Check = "answer"
	CheckLeak         Check = "leak"
	CheckGoroutine    Check = "goroutine"
	CheckHang         Check = "hang"
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

// verification is a check of a history. Of the options it reads Patience,
// AssumptionsBroken, Votes and MaxSearchSteps.
type verification struct {
	Options
	drift     time.Duration // the margin of trust, and how far clocks may differ over a TTL
	precision time.Duration // the backend's: how late a lease may run out
	h         *history
	end       time.Duration
	found     []Violation
	undecided []string
}

// verify checks all but goroutines, and returns the violations in the order in which
// they happened, and the names whose order was not found, nor found to be impossible,
// within the effort.
func (v verification) verify(h *history) (violations []Violation, undecided []string) {
	v.h, v.end = h, h.end()
	operations, holds := grouped(h.Operations, func(o operation) string { return o.Name }), grouped(h.Holds, func(t hold) string { return t.Name })
	writes := grouped(h.Writes, func(w write) string { return w.Name })
	for _, name := range h.names() {
		n := &named{verification: &v, name: name, operations: operations[name], holds: holds[name], writes: writes[name]}
		n.breaks = immediateBreaks(n.operations)
		n.check()
	}
	for _, f := range h.Free {
		if f.At == 0 || f.At > f.By {
			v.violated(CheckLeak, f.Name, f.By, "nobody holds the name, but it was not free %s after the last client was closed", seconds(f.By-h.Closed))
		}
	}
	slices.SortStableFunc(v.found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Check, b.Check), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(v.found), v.undecided
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
	breaks     []operation // that have, or may have, ended a lease at once
}

func (n *named) violated(check Check, at time.Duration, format string, args ...any) {
	n.verification.violated(check, n.name, at, format, args...)
}

func (n *named) check() {
	if !n.AssumptionsBroken {
		n.overlaps()
		n.unreleased()
	}
	for _, layer := range []layer{layerClient, layerBackend} {
		seen := seenBy(n.operations, layer)
		n.tokens(seen)
		if !n.AssumptionsBroken {
			n.ghosts(seen)
			n.linearizable(layer, seen)
		}
	}
	n.fence()
	n.losses()
	n.answers()
	n.overdue()
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
