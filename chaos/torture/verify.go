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
	Check Check         `json:"check"`
	Name  string        `json:"name,omitempty"`
	At    time.Duration `json:"at"`
	Text  string        `json:"text"`
}

func (v Violation) String() string {
	where := ""
	if v.Name != "" {
		where = v.Name + " "
	}
	return fmt.Sprintf("%s: %sat %s: %s", v.Check, where, seconds(v.At), v.Text)
}

// VerifyOptions are what a history is checked against.
type VerifyOptions struct {
	// Drift is the margin of trust, and how far clocks may differ over a TTL.
	Drift time.Duration
	// Precision is the backend's: how late a lease may run out.
	Precision time.Duration
	// Patience is how long what should happen at once may take on this machine.
	Patience time.Duration
	// AssumptionsBroken leaves out overlap, linearizability, ghosts, refusals, and
	// whether a holder's write was refused.
	AssumptionsBroken bool
	// Votes is as in Options.
	Votes bool
	// MaxSearchSteps bounds the search for a linear order, in steps for each name.
	MaxSearchSteps int
}

// Verify checks a history, all but goroutines, and returns the violations in the
// order in which they happened, and the names whose order was not found, nor
// found to be impossible, within the effort.
func Verify(h *History, options VerifyOptions) (violations []Violation, undecided []string) {
	v := &verification{VerifyOptions: options, h: h, end: h.end()}
	operations, holds := grouped(h.Operations, func(o Operation) string { return o.Name }), grouped(h.Holds, func(t Hold) string { return t.Name })
	writes := grouped(h.Writes, func(w Write) string { return w.Name })
	for _, name := range h.names() {
		n := &named{verification: v, name: name, operations: operations[name], holds: holds[name], writes: writes[name]}
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

// verification is a check of a history.
type verification struct {
	VerifyOptions
	h         *History
	end       time.Duration
	found     []Violation
	undecided []string
}

func (v *verification) violated(check Check, name string, at time.Duration, format string, args ...any) {
	v.found = append(v.found, Violation{Check: check, Name: name, At: at, Text: fmt.Sprintf(format, args...)})
}

// named is what happened to one name.
type named struct {
	*verification
	name       string
	operations []Operation
	holds      []Hold
	writes     []Write
	breaks     []Operation // that have, or may have, ended a lease at once
}

func (n *named) violated(check Check, at time.Duration, format string, args ...any) {
	n.verification.violated(check, n.name, at, format, args...)
}

func (n *named) check() {
	if !n.AssumptionsBroken {
		n.overlaps()
		n.unreleased()
	}
	for _, layer := range []Layer{LayerClient, LayerBackend} {
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
