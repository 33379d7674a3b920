package chaos

import (
	"fmt"
	"slices"

	"github.com/distributedleasing/leasing/abstractions"
)

// Warnings describes settings that are valid but probably mistakes: no enabled rule, a rule
// that never fires since an earlier rule takes its operations, or a setting that another
// setting overrides. Each warning begins with its field: "Plan.Rules[1]: ...". The result is
// nil if nothing is wrong. A probability of 0 means always and a budget of 0 means no limit,
// so neither is a warning. [Provider.Warnings] checks more.
func (p Plan) Warnings() []string {
	if len(p.Rules) == 0 {
		return []string{"Plan.Rules: there are none, so nothing happens"}
	}
	var all []string
	if !slices.ContainsFunc(p.Rules, func(r Rule) bool { return !r.Disabled }) {
		all = append(all, "Plan.Rules: each is disabled, so nothing happens before Enable")
	}
	for i, r := range p.Rules {
		where := fmt.Sprintf("Plan.Rules[%d]", i)
		warn := func(is bool, field, text string, args ...any) {
			if is {
				all = append(all, where+field+": "+fmt.Sprintf(text, args...))
			}
		}
		j := p.shadow(i)
		warn(j >= 0, "", "Plan.Rules[%d] takes its operations first, so this rule never fires", j)
		nameless := without(r.Match.Ops, namedOps)
		warn(len(r.Match.Names) > 0 && len(nameless) > 0, ".Match.Ops", "%s has no name, and the rule has Names", list(nameless))
		warn(p.Budget.Total > 0 && r.Budget.Total > p.Budget.Total, ".Budget.Total", "%d is more than the plan's, %d", r.Budget.Total, p.Budget.Total)
		warn(r.Budget.Total > 0 && r.Budget.PerName >= r.Budget.Total, ".Budget.PerName", "%d has no effect beside Total %d", r.Budget.PerName, r.Budget.Total)
		warn(r.When.First > 0 && len(r.When.Sequence) > r.When.First, ".When.Sequence", "it is longer than First, %d", r.When.First)
	}
	return all
}

// Warnings returns the plan's warnings, and those that depend on the wrapped provider
// and the Options: a rule about an operation that the provider does not have, or about
// an owner that is not known.
func (p *Provider) Warnings() []string {
	all := p.plan.Warnings()
	has := p.operations()
	for i, r := range p.plan.Rules {
		where := fmt.Sprintf("Plan.Rules[%d]", i)
		ops := r.Match.operations(r.Fault.Kind)
		lacking := without(ops, has)
		switch {
		case len(lacking) == len(ops):
			all = append(all, fmt.Sprintf("%s: the provider has no %s, so this rule never fires", where, list(lacking)))
		case len(lacking) > 0 && len(r.Match.Ops) > 0:
			all = append(all, fmt.Sprintf("%s.Match.Ops: the provider has no %s", where, list(lacking)))
		}
		if len(without(ops, ownerlessOps)) == 0 && !fitsAny(r.Match.Owners, p.options.Owner) {
			all = append(all, fmt.Sprintf("%s.Match.Owners: %s has the owner of Options, %q, so this rule never fires", where, list(ops), p.options.Owner))
		}
	}
	return all
}

// ownerlessOps lists the operations whose requests have neither an owner nor the ID of a claim.
var ownerlessOps = []Op{OpBreak, OpInspect, OpList, OpPing, OpHistory, OpWaiters, OpRenewBatch}

// operations returns the operations of the wrapped provider.
func (p *Provider) operations() []Op {
	lacking := map[Op]bool{
		OpRenewBatch: lacks[abstractions.BatchRenewer](p), OpWait: lacks[abstractions.Waiter](p), OpWaiters: lacks[abstractions.WaiterLister](p),
		OpList: lacks[abstractions.Lister](p), OpPing: lacks[abstractions.Pinger](p), OpHistory: lacks[abstractions.HistoryReader](p),
	}
	return slices.DeleteFunc(slices.Clone(allOps), func(op Op) bool { return lacking[op] })
}

func lacks[T any](p *Provider) bool {
	_, has := abstractions.As[T](p)
	return !has
}

// without returns the operations that are not among others.
func without(ops, others []Op) []Op {
	return slices.DeleteFunc(slices.Clone(ops), func(op Op) bool { return slices.Contains(others, op) })
}

// shadowed returns an error for the first rule that never fires.
func (p Plan) shadowed() error {
	for i, r := range p.Rules {
		if j := p.shadow(i); j >= 0 {
			return invalid(fmt.Sprintf("Plan.Rules[%d]", i), string(r.Fault.Kind),
				fmt.Sprintf("operations that Plan.Rules[%d], %s, does not take first: this rule would never fire", j, p.Rules[j].Fault.Kind))
		}
	}
	return nil
}

// shadow returns the earlier rule that takes all operations of the i-th rule, or -1. A rule
// that is disabled in the plan does not shadow others, since tests enable such rules only
// temporarily.
func (p Plan) shadow(i int) int {
	r := p.Rules[i]
	for j, by := range p.Rules {
		first := by.priority() > r.priority() || j < i && by.priority() == r.priority()
		if first && !by.Disabled && by.takesAll() && by.Match.covers(by.Fault.Kind, r.Match, r.Fault.Kind) && r.Fault.Kind != FaultDelay {
			return j
		}
	}
	return -1
}

// priority puts partitions before other rules: a caller that is cut off gets no other fault.
func (r Rule) priority() int { return traits[r.Fault.Kind].priority }

// takesAll reports whether a rule's fault happens to every operation that matches, so that no
// other fault can happen.
func (r Rule) takesAll() bool {
	switch r.Fault.Kind {
	case FaultDelay, FaultStaleRead, FaultDeliveredLate: // delays add up; a stale read needs an earlier answer; late deliveries are bounded
		return false
	}
	always := r.When == Policy{Probability: r.When.Probability} && (r.When.Probability == 0 || r.When.Probability == 1)
	return always && r.Budget == Budget{} && r.Rate == Rate{}
}

// covers reports whether m, in a rule of one kind, matches each operation that other matches
// in a rule of otherKind.
func (m Match) covers(kind FaultKind, other Match, otherKind FaultKind) bool {
	mine := m.operations(kind)
	for _, op := range other.operations(otherKind) {
		if !slices.Contains(mine, op) {
			return false
		}
	}
	least, most := m.attempts()
	otherLeast, otherMost := other.attempts()
	return least <= otherLeast && otherMost <= most && coverPatterns(m.Names, other.Names) && coverPatterns(m.Owners, other.Owners)
}

// operations returns the operations that m selects for a kind of fault.
func (m Match) operations(kind FaultKind) []Op {
	if len(m.Ops) > 0 {
		return m.Ops
	}
	return slices.DeleteFunc(slices.Clone(traits[kind].ops), func(op Op) bool { return op == OpRenewBatch })
}

// coverPatterns reports whether each text that fits one of others also fits one of patterns, where
// an empty list fits all texts. A * in a pattern covers any text, including a * in others.
func coverPatterns(patterns, others []string) bool {
	if len(patterns) == 0 {
		return true
	}
	return len(others) > 0 && !slices.ContainsFunc(others, func(other string) bool { return !fitsAny(patterns, other) })
}
