package chaos

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// maxRate bounds Rate.Count, since that many instants are stored.
const maxRate = 1 << 16

// Validate returns nil if the plan is valid. Otherwise the error is a *leasing.InvalidError
// that names the field, such as "Plan.Rules[2].Fault.Delay". Wrap calls Validate.
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
			return invalid(where+".Name", r.Name, "a name of its own: another rule has the same")
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
	if r.Fault.Kind != FaultPartitioned {
		return nil
	}
	least, most := r.Match.attempts()
	window := Policy{From: r.When.From, To: r.When.To, Repeat: r.When.Repeat}
	return firstOf(
		need(r.When == window, "When", "more than a window", "From, To and Repeat only: a partition is a state and not a matter of single operations"),
		need(least == 1 && most == math.MaxInt, "Match.MinAttempt", least, "no bound of attempts: a partition is a state and not a matter of single operations"),
		need(r.Budget == Budget{} && r.Rate == Rate{}, "Budget", "a limit", "neither Budget nor Rate for a partition, which lasts as long as its window"),
	)
}

func (f Fault) validate() error {
	t, ok := traits[f.Kind]
	if !ok {
		return invalid("Fault.Kind", string(f.Kind), "one of "+list(slices.Sorted(maps.Keys(traits))))
	}
	unused := " for " + string(f.Kind) + ", which does not use the field"
	return firstOf(
		need(f.Delay >= 0, "Fault.Delay", f.Delay, "0 or more"),
		need(f.Delay == 0 || t.delay, "Fault.Delay", f.Delay, "0"+unused),
		need(f.Jitter >= 0, "Fault.Jitter", f.Jitter, "0 or more"),
		need(f.Jitter == 0 || t.jitter, "Fault.Jitter", f.Jitter, "0"+unused),
		need(!t.needsDelay || sum(f.Delay, f.Jitter) > 0, "Fault.Delay", f.Delay, "more than 0"),
		need(!f.After || t.after, "Fault.After", true, "false for "+string(f.Kind)+", which acts at a fixed point"),
		need(!f.Heedless || f.Kind == FaultDelay, "Fault.Heedless", true, "false"+unused),
		need(f.RetryAfter >= 0, "Fault.RetryAfter", f.RetryAfter, "0 or more"),
		need(f.RetryAfter == 0 || f.Kind == FaultThrottle, "Fault.RetryAfter", f.RetryAfter, "0"+unused),
		need(!f.RunOut || f.Kind == FaultBroken, "Fault.RunOut", true, "false"+unused),
		need(f.Failure == "" || f.Kind == FaultError, "Fault.Failure", string(f.Failure), `""`+unused),
		need(slices.Contains([]Failure{"", FailureUnavailable, FailureDenied, FailureNotSetUp}, f.Failure), "Fault.Failure", string(f.Failure),
			fmt.Sprintf("%s, %s or %s", FailureUnavailable, FailureDenied, FailureNotSetUp)),
		need(f.Failure == "" || f.Failure == FailureUnavailable || !f.After, "Fault.Failure", string(f.Failure),
			"unavailable with After: the others promise that nothing was applied"),
		need((f.Custom != nil) == (f.Kind == FaultCustom), "Fault.Custom", fmt.Sprintf("%T", f.Custom), "a CustomFault for custom, in Go only; nil for the other kinds"),
	)
}

func (p Policy) validate() error {
	counts := p.Skip != 0 || p.First != 0 || p.Every != 0 || p.Sequence != ""
	return firstOf(
		need(p.From >= 0, "When.From", p.From, "0 or more"),
		need(p.To == 0 || p.To > p.From, "When.To", p.To, fmt.Sprintf("more than From, which is %v; or 0 for no end", p.From)),
		need(p.Repeat == 0 || p.To != 0 && p.Repeat >= p.To, "When.Repeat", p.Repeat, "0 for one window; else To to be set, and at least To"),
		need(p.Skip >= 0, "When.Skip", p.Skip, "0 or more"),
		need(p.First >= 0, "When.First", p.First, "0 for no limit, or more"),
		need(p.Every >= 0, "When.Every", p.Every, "0 for each, or more"),
		need(strings.Trim(p.Sequence, "x.") == "" && (p.Sequence == "" || strings.Contains(p.Sequence, "x")), "When.Sequence", p.Sequence,
			"x for a fault and . for none, with at least one x"),
		need(p.Probability >= 0 && p.Probability <= 1, "When.Probability", p.Probability, "0 for always, or more, up to 1"),
		need(p.canFire(), "When.Every", p.Every, "no more than First, and to fall on an x of Sequence: this rule would never fire"),
		need(!p.PerName || counts, "When.PerName", true, "Skip, First, Every or Sequence to be set: nothing else counts"),
	)
}

// canFire reports whether the number of an operation can be within First, a multiple of Every,
// and the position of an x in Sequence, all at once.
func (p Policy) canFire() bool {
	if p.Every <= 0 || p.Sequence == "" {
		return p.First == 0 || p.Every <= p.First
	}
	for n := p.Every; n <= len(p.Sequence) && (p.First == 0 || n <= p.First); n += p.Every {
		if p.Sequence[n-1] == 'x' {
			return true
		}
	}
	return false
}

func (m Match) validate(kind FaultKind) error {
	if len(m.Names) > 0 && len(m.Ops) > 0 && !slices.ContainsFunc(m.Ops, func(op Op) bool { return slices.Contains(namedOps, op) }) {
		return invalid("Match.Names", strings.Join(m.Names, ", "), "no names for "+list(m.Ops)+", which have no name: this rule would never fire")
	}
	for i, op := range m.Ops {
		if !slices.Contains(allOps, op) {
			return invalid(fmt.Sprintf("Match.Ops[%d]", i), string(op), "one of "+list(allOps))
		}
		if !slices.Contains(traits[kind].ops, op) {
			return invalid(fmt.Sprintf("Match.Ops[%d]", i), string(op), fmt.Sprintf("one to which %s can happen: %s", kind, list(traits[kind].ops)))
		}
	}
	name, owner := slices.Index(m.Names, ""), slices.Index(m.Owners, "")
	least, most := m.attempts()
	return firstOf(
		need(m.MinAttempt >= 0, "Match.MinAttempt", m.MinAttempt, "0 for no bound, or more: the first attempt is 1"),
		need(most >= least, "Match.MaxAttempt", m.MaxAttempt, fmt.Sprintf("0 for no bound, or at least %d, the first attempt that the rule matches", least)),
		need(name < 0, fmt.Sprintf("Match.Names[%d]", name), "", "a name, in which * stands for any characters"),
		need(owner < 0, fmt.Sprintf("Match.Owners[%d]", owner), "", "an owner, in which * stands for any characters"),
	)
}

func (b Budget) validate() error {
	return firstOf(
		need(b.Total >= 0, "Budget.Total", b.Total, "0 for no limit, or more"),
		need(b.PerName >= 0, "Budget.PerName", b.PerName, "0 for no limit, or more"),
	)
}

func (r Rate) validate() error {
	return firstOf(
		need(r.Count >= 0 && r.Count <= maxRate && (r.Count != 0 || r.Per == 0), "Rate.Count", r.Count,
			fmt.Sprintf("1 to %d; or 0, and Per 0, for no limit", maxRate)),
		need(r.Per >= 0 && (r.Per != 0 || r.Count == 0), "Rate.Per", r.Per, "more than 0; or 0, and Count 0, for no limit"),
	)
}

// sum adds two non-negative durations, without overflow.
func sum(a, b time.Duration) time.Duration {
	if a > abstractions.Infinite-b {
		return abstractions.Infinite
	}
	return a + b
}

func invalid(field string, value any, want string) error {
	return &abstractions.InvalidError{Field: field, Value: value, Want: want}
}

// need returns an error for a field that does not meet a condition.
func need(met bool, field string, value any, want string) error {
	if met {
		return nil
	}
	return invalid(field, value, want)
}

func isInvalid(err error) bool {
	return errors.As(err, new(*abstractions.InvalidError))
}

// within prefixes the field of an error with its path.
func within(where string, err error) error {
	if known := (*abstractions.InvalidError)(nil); errors.As(err, &known) {
		return invalid(where+"."+known.Field, known.Value, known.Want)
	}
	return err
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// list joins the names of kinds or operations with commas.
func list[T ~string](all []T) string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = string(one)
	}
	return strings.Join(names, ", ")
}
