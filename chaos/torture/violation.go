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
	// MaxSearchSteps bounds the search for a linear order, in steps for each name.
	MaxSearchSteps int
}

// Verify checks a history, all but goroutines, and returns the violations in the
// order in which they happened, and the names whose order was not found, nor
// found to be impossible, within the effort.
func Verify(h *History, options VerifyOptions) (violations []Violation, undecided []string) {
	if !options.AssumptionsBroken {
		violations = append(violations, overlaps(h)...)
		violations = append(violations, ghosts(h)...)
		violations = append(violations, unreleased(h)...)
		for _, layer := range []Layer{LayerClient, LayerBackend} {
			found, open := linearizable(h, layer, options)
			violations, undecided = append(violations, found...), append(undecided, open...)
		}
	}
	for _, check := range []func(*History, VerifyOptions) []Violation{strays, tokens, fence, losses, overdue, leaks, hangs} {
		violations = append(violations, check(h, options)...)
	}
	slices.SortStableFunc(violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Check, b.Check), cmp.Compare(a.Name, b.Name))
	})
	return violations, undecided
}

// seconds is a time for people to read and to find on the timeline.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }
