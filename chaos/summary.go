package chaos

import (
	"cmp"
	"fmt"
	"math"
	"strings"
)

// String returns the plan in words: one line for the plan and one for each rule.
func (p Plan) String() string {
	p = p.complete()
	var b strings.Builder
	fmt.Fprintf(&b, "chaos: plan %q, seed %d: %d rules%s", p.Name, p.Seed, len(p.Rules), limits(p.Budget, p.Rate))
	for _, r := range p.Rules {
		b.WriteString("\n  " + r.String())
	}
	return b.String()
}

// String returns the rule in words: "failover: each renew of jobs/* loses its reply, from 10s to
// 12s".
func (r Rule) String() string {
	return fmt.Sprintf("%s: each %s %s%s%s", cmp.Or(r.Name, string(r.Fault.Kind)), r.Match.words(r.Fault.Kind), r.Fault.words(), r.When.words(), limits(r.Budget, r.Rate)) +
		phrases(", ", phrase{r.Disabled, "once it is enabled"})
}

// words returns the operations that a rule for a kind of fault matches.
func (m Match) words(kind FaultKind) string {
	text := alternatives(m.operations(kind))
	if len(m.Ops) == 0 && len(traits[kind].ops) == len(allOps) {
		text = "operation"
	}
	least, most := m.attempts()
	return text + phrases(" ",
		phrase{len(m.Names) > 0, "of " + alternatives(m.Names)},
		phrase{len(m.Owners) > 0, "by " + alternatives(m.Owners)},
		phrase{least > 1 && most == math.MaxInt, fmt.Sprintf("in attempts from %d", least)},
		phrase{most < math.MaxInt, fmt.Sprintf("in attempts %d to %d", least, most)},
	)
}

// words returns the effect on an operation.
func (f Fault) words() string {
	least, most := f.Delay, sum(f.Delay, f.Jitter)
	return traits[f.Kind].does + phrases(" ",
		phrase{f.Custom != nil, fmt.Sprintf("%T", f.Custom)},
		phrase{least != most, fmt.Sprintf("for %v to %v", least, most)},
		phrase{least == most && least > 0, fmt.Sprintf("for %v", least)},
		phrase{most == 0 && traits[f.Kind].hangs, "until its context ends"},
		phrase{f.Failure != "", "as " + string(f.Failure)},
		phrase{f.RetryAfter > 0, fmt.Sprintf("with a pause of %v", f.RetryAfter)},
		phrase{f.RunOut, "and left to run out"},
		phrase{f.After, "after its effect"},
		phrase{f.Heedless, "beyond its context"},
	)
}

// words returns the conditions of a fault, each after a comma.
func (p Policy) words() string {
	to := "the end"
	if p.To > 0 {
		to = p.To.String()
	}
	return phrases(", ",
		phrase{p.From > 0 || p.To > 0, fmt.Sprintf("from %v to %s", p.From, to)},
		phrase{p.Repeat > 0, fmt.Sprintf("again every %v", p.Repeat)},
		phrase{p.Skip > 0, fmt.Sprintf("after the first %d", p.Skip)},
		phrase{p.First > 0, fmt.Sprintf("in %d operations at most", p.First)},
		phrase{p.Every > 1, fmt.Sprintf("in one of every %d", p.Every)},
		phrase{p.Sequence != "", "in the sequence " + p.Sequence},
		phrase{p.PerName, "counted for each name"},
		phrase{p.Probability > 0, fmt.Sprintf("with probability %v", p.Probability)},
		phrase{p.Custom != nil, fmt.Sprintf("picked by %T", p.Custom)},
	)
}

func limits(b Budget, r Rate) string {
	return phrases(", ",
		phrase{b.Total > 0, fmt.Sprintf("at most %d faults", b.Total)},
		phrase{b.PerName > 0, fmt.Sprintf("at most %d for a name", b.PerName)},
		phrase{r.Count > 0, fmt.Sprintf("at most %d in %v", r.Count, r.Per)},
	)
}

// phrase is an optional part of a sentence.
type phrase struct {
	present bool
	text    string
}

// phrases joins the parts, each after the given text.
func phrases(before string, all ...phrase) string {
	var b strings.Builder
	for _, one := range all {
		if one.present {
			b.WriteString(before + one.text)
		}
	}
	return b.String()
}

// alternatives lists "a, b or c".
func alternatives[T ~string](all []T) string {
	if len(all) < 2 {
		return list(all)
	}
	return list(all[:len(all)-1]) + " or " + string(all[len(all)-1])
}
