package chaos

import (
	"fmt"
	"slices"
)

// shadowed finds a rule that can never happen, since an earlier one happens to all
// its operations. Rules that are disabled at first shadow nothing: they are for
// tests that switch.
func (p Plan) shadowed() error {
	for i, r := range p.Rules {
		for j, by := range p.Rules {
			first := by.priority() > r.priority() || j < i && by.priority() == r.priority()
			if first && !by.Disabled && by.takesAll() && by.Match.covers(by.Fault.Kind, r.Match, r.Fault.Kind) && r.Fault.Kind != FaultDelay {
				return invalid(fmt.Sprintf("Plan.Rules[%d]", i), string(r.Fault.Kind),
					fmt.Sprintf("operations that Plan.Rules[%d], %s, does not take first: this rule would never fire", j, by.Fault.Kind))
			}
		}
	}
	return nil
}

// priority puts partitions before other rules: what is cut off is cut off.
func (r Rule) priority() int { return traits[r.Fault.Kind].priority }

// takesAll says that a rule happens to every operation that matches, and that no
// other fault can happen to one then.
func (r Rule) takesAll() bool {
	switch r.Fault.Kind {
	case FaultDelay, FaultStaleRead, FaultDeliveredLate: // adds up; needs an earlier answer; has room for so many
		return false
	}
	always := r.When == Policy{Probability: r.When.Probability} && (r.When.Probability == 0 || r.When.Probability == 1)
	return always && r.Budget == Budget{} && r.Rate == Rate{}
}

// covers says that m, of a rule of one kind, matches all that other does.
func (m Match) covers(kind FaultKind, other Match, otherKind FaultKind) bool {
	mine := m.operations(kind)
	for _, op := range other.operations(otherKind) {
		if !slices.Contains(mine, op) {
			return false
		}
	}
	return coverPatterns(m.Names, other.Names) && coverPatterns(m.Owners, other.Owners)
}

// operations are those that a match chooses for a kind.
func (m Match) operations(kind FaultKind) []Op {
	if len(m.Ops) > 0 {
		return m.Ops
	}
	return slices.DeleteFunc(slices.Clone(traits[kind].ops), func(op Op) bool { return op == OpRenewBatch })
}

// coverPatterns says that whatever fits one of others fits one of patterns, none
// being all. A * of a pattern stands for any text, and so for a * of another.
func coverPatterns(patterns, others []string) bool {
	if len(patterns) == 0 {
		return true
	}
	return len(others) > 0 && !slices.ContainsFunc(others, func(other string) bool { return !fitsAny(patterns, other) })
}
