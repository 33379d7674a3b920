package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// maxRate bounds Rate.Count, since as many instants are kept.
const maxRate = 1 << 16

// Validate reports what in a plan can't work, as a *leasing.InvalidError that
// names the field: "Plan.Rules[2].Fault.Delay". Wrap calls it.
func (p Plan) Validate() error {
	if err := firstOf(p.Budget.validate(), p.Rate.validate()); err != nil {
		return within("Plan", err)
	}
	seen := map[string]bool{}
	for i, r := range p.Rules {
		where := fmt.Sprintf("Plan.Rules[%d]", i)
		if err := r.validate(); err != nil {
			return within(where, err)
		}
		if r.Name != "" && seen[r.Name] {
			return invalid(where+".Name", r.Name, "a name that no other rule has")
		}
		seen[r.Name] = true
	}
	return nil
}

func (r Rule) validate() error {
	return firstOf(r.Fault.validate(), r.When.validate(), r.Match.validate(r.Fault.Kind), r.Budget.validate(), r.Rate.validate(), r.fits())
}

// fits checks fields of a rule against each other.
func (r Rule) fits() error {
	window := Policy{From: r.When.From, To: r.When.To, Repeat: r.When.Repeat}
	if r.Fault.Kind == FaultPartitioned && r.When != window {
		return invalid("When", "more than a window", "From, To and Repeat only: a partition is a state and not a matter of single operations")
	}
	if r.Fault.Kind == FaultPartitioned && (r.Budget != Budget{} || r.Rate != Rate{}) {
		return invalid("Budget", "a limit", "neither Budget nor Rate for a partition, which lasts as long as its window")
	}
	return nil
}

func (f Fault) validate() error {
	t, ok := traits[f.Kind]
	if !ok {
		return invalid("Fault.Kind", string(f.Kind), "one of "+listKinds())
	}
	unused := "0 for " + string(f.Kind) + ", which does not use it"
	switch {
	case f.Delay < 0 || f.Delay != 0 && !t.delay:
		return invalid("Fault.Delay", f.Delay, or(f.Delay < 0, "0 or more", unused))
	case f.Jitter < 0 || f.Jitter != 0 && !t.jitter:
		return invalid("Fault.Jitter", f.Jitter, or(f.Jitter < 0, "0 or more", unused))
	case t.needsDelay && sum(f.Delay, f.Jitter) <= 0:
		return invalid("Fault.Delay", f.Delay, "more than 0")
	case f.After && !t.after:
		return invalid("Fault.After", true, "false for "+string(f.Kind)+", which has a place of its own")
	case f.RetryAfter < 0 || f.RetryAfter != 0 && f.Kind != FaultThrottle:
		return invalid("Fault.RetryAfter", f.RetryAfter, or(f.RetryAfter < 0, "0 or more", unused))
	case f.RunOut && f.Kind != FaultBroken:
		return invalid("Fault.RunOut", true, "false for "+string(f.Kind)+", which does not use it")
	}
	return f.validateFailure()
}

func (f Fault) validateFailure() error {
	switch {
	case f.Failure == "":
		return nil
	case f.Kind != FaultError:
		return invalid("Fault.Failure", string(f.Failure), `"" for `+string(f.Kind)+", which does not use it")
	case f.Failure == FailureUnavailable:
		return nil
	case f.Failure != FailureDenied && f.Failure != FailureNotSetUp:
		return invalid("Fault.Failure", string(f.Failure), fmt.Sprintf("%s, %s or %s", FailureUnavailable, FailureDenied, FailureNotSetUp))
	case f.After:
		return invalid("Fault.Failure", string(f.Failure), "unavailable with After: the others promise that nothing was applied")
	}
	return nil
}

func (p Policy) validate() error {
	switch {
	case p.From < 0:
		return invalid("When.From", p.From, "0 or more")
	case p.To != 0 && p.To <= p.From:
		return invalid("When.To", p.To, fmt.Sprintf("more than From, which is %v; or 0 for no end", p.From))
	case p.Repeat < 0 || p.Repeat != 0 && (p.To == 0 || p.Repeat < p.To):
		return invalid("When.Repeat", p.Repeat, "0 for one window; else To to be set, and at least To")
	case p.Skip < 0:
		return invalid("When.Skip", p.Skip, "0 or more")
	case p.First < 0:
		return invalid("When.First", p.First, "0 for no limit, or more")
	case p.Every < 0:
		return invalid("When.Every", p.Every, "0 for each, or more")
	case strings.Trim(p.Sequence, "x.") != "" || p.Sequence != "" && !strings.Contains(p.Sequence, "x"):
		return invalid("When.Sequence", p.Sequence, "x for a fault and . for none, with at least one x")
	case !(p.Probability >= 0 && p.Probability <= 1):
		return invalid("When.Probability", p.Probability, "0 for always, or more, up to 1")
	case p.First != 0 && p.First < p.Every, p.Every != 0 && p.Sequence != "" && !p.strikes():
		return invalid("When.Every", p.Every, "no more than First, and to fall on an x of Sequence: this rule would never fire")
	case p.PerName && p.Skip == 0 && p.First == 0 && p.Every == 0 && p.Sequence == "":
		return invalid("When.PerName", true, "Skip, First, Every or Sequence to be set: nothing else counts")
	}
	return nil
}

// strikes reports whether Every falls on an x of Sequence.
func (p Policy) strikes() bool {
	for n := p.Every; n <= len(p.Sequence) && (p.First == 0 || n <= p.First); n += p.Every {
		if p.Sequence[n-1] == 'x' {
			return true
		}
	}
	return false
}

func (m Match) validate(kind FaultKind) error {
	if len(m.Names) > 0 && len(m.Ops) > 0 && !slices.ContainsFunc(m.Ops, func(op Op) bool { return slices.Contains(named, op) }) {
		return invalid("Match.Names", strings.Join(m.Names, ", "), "nothing for "+listOps(m.Ops)+", which have no name: this rule would never fire")
	}
	for i, op := range m.Ops {
		if !slices.Contains(allOps, op) {
			return invalid(fmt.Sprintf("Match.Ops[%d]", i), string(op), "one of "+listOps(allOps))
		}
		if !slices.Contains(traits[kind].ops, op) {
			return invalid(fmt.Sprintf("Match.Ops[%d]", i), string(op), fmt.Sprintf("one to which %s can happen: %s", kind, listOps(traits[kind].ops)))
		}
	}
	for i, pattern := range m.Names {
		if pattern == "" {
			return invalid(fmt.Sprintf("Match.Names[%d]", i), pattern, "a name, in which * stands for any characters")
		}
	}
	for i, pattern := range m.Owners {
		if pattern == "" {
			return invalid(fmt.Sprintf("Match.Owners[%d]", i), pattern, "an owner, in which * stands for any characters")
		}
	}
	return nil
}

func (b Budget) validate() error {
	switch {
	case b.Total < 0:
		return invalid("Budget.Total", b.Total, "0 for no limit, or more")
	case b.PerName < 0:
		return invalid("Budget.PerName", b.PerName, "0 for no limit, or more")
	}
	return nil
}

func (r Rate) validate() error {
	switch {
	case r.Count < 0 || r.Count > maxRate || r.Count == 0 && r.Per != 0:
		return invalid("Rate.Count", r.Count, fmt.Sprintf("1 to %d; or 0, and Per 0, for no limit", maxRate))
	case r.Per < 0 || r.Per == 0 && r.Count != 0:
		return invalid("Rate.Per", r.Per, "more than 0; or 0, and Count 0, for no limit")
	}
	return nil
}

// sum adds times that are not negative and never wraps around.
func sum(a, b time.Duration) time.Duration {
	if a > abstractions.Infinite-b {
		return abstractions.Infinite
	}
	return a + b
}

func invalid(field string, value any, want string) error {
	return &abstractions.InvalidError{Field: field, Value: value, Want: want}
}

func or(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func listKinds() string {
	var names []string
	for kind := range traits {
		names = append(names, string(kind))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func listOps(ops []Op) string {
	names := make([]string, len(ops))
	for i, op := range ops {
		names[i] = string(op)
	}
	return strings.Join(names, ", ")
}
