package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Report is what a wrapper has done so far.
type Report struct {
	Plan string `json:"plan,omitempty"`
	Seed uint64 `json:"seed"`
	// Operations were asked for while the plan was enabled: each item of a
	// batch of renewals is one, and so is the batch as a whole.
	Operations map[Op]int `json:"operations"`
	// Injected is the number of faults, and the maps count the same ones.
	Injected int               `json:"injected"`
	ByRule   map[string]int    `json:"by_rule"` // with 0 for a rule that never happened
	ByKind   map[FaultKind]int `json:"by_kind"`
	ByOp     map[Op]int        `json:"by_op"`
	ByName   map[string]int    `json:"by_name"` // of the first 1024 names, the others under "(others)"
	ByOwner  map[string]int    `json:"by_owner"`
	Late     LateDeliveries    `json:"late"`
}

// LateDeliveries says what became of the operations of FaultDeliveredLate.
type LateDeliveries struct {
	Applied int `json:"applied"` // the backend accepted them
	Refused int `json:"refused"` // it did not, or did not answer
	Dropped int `json:"dropped"` // the wrapper was closed first
	Pending int `json:"pending"` // they are on their way
}

// maxReported is how many names and owners are counted each for itself.
const maxReported = 1 << 10

const others = "(others)"

// Report returns what was injected where.
func (p *Provider) Report() Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := Report{
		Plan: p.plan.Name, Seed: p.plan.Seed, Injected: p.report.injected, Late: p.report.late,
		Operations: maps.Clone(p.report.operations), ByRule: maps.Clone(p.report.byRule), ByKind: maps.Clone(p.report.byKind),
		ByOp: maps.Clone(p.report.byOp), ByName: maps.Clone(p.report.byName), ByOwner: maps.Clone(p.report.byOwner),
	}
	r.Late.Pending = p.late
	for _, rule := range p.rules {
		r.ByRule[rule.Name] += 0
	}
	return r
}

// Unused returns the rules that never happened, in the order of their names: a
// test that passes with them has shown nothing about them.
func (r Report) Unused() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.ByRule)) {
		if r.ByRule[name] == 0 {
			names = append(names, name)
		}
	}
	return names
}

// String is the report as a few lines of text.
func (r Report) String() string {
	var b strings.Builder
	asked := 0
	for _, n := range r.Operations {
		asked += n
	}
	fmt.Fprintf(&b, "chaos: plan %q, seed %d: %d faults in %d operations\n", r.Plan, r.Seed, r.Injected, asked)
	section(&b, "rules", r.ByRule)
	section(&b, "kinds", r.ByKind)
	section(&b, "operations", r.ByOp)
	section(&b, "names", r.ByName)
	section(&b, "owners", r.ByOwner)
	if r.Late != (LateDeliveries{}) {
		fmt.Fprintf(&b, "  late: %d applied, %d refused, %d dropped, %d pending\n", r.Late.Applied, r.Late.Refused, r.Late.Dropped, r.Late.Pending)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// JSON is the report for machines.
func (r Report) JSON() []byte {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		panic("chaos: a report can't be written as JSON: " + err.Error()) // maps of strings and numbers
	}
	return text
}

// shown is how many entries of a section are printed.
const shown = 10

// section prints the largest counts first.
func section[K ~string](b *strings.Builder, title string, counts map[K]int) {
	if len(counts) == 0 {
		return
	}
	keys := slices.SortedFunc(maps.Keys(counts), func(x, y K) int {
		return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y))
	})
	parts := make([]string, 0, shown+1)
	for _, key := range keys[:min(len(keys), shown)] {
		parts = append(parts, fmt.Sprintf("%s %d", cmp.Or(string(key), "(none)"), counts[key]))
	}
	if more := len(keys) - shown; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	fmt.Fprintf(b, "  %s: %s\n", title, strings.Join(parts, ", "))
}

// tally is a report in the making. The provider's lock guards it.
type tally struct {
	operations map[Op]int
	injected   int
	byRule     map[string]int
	byKind     map[FaultKind]int
	byOp       map[Op]int
	byName     map[string]int
	byOwner    map[string]int
	late       LateDeliveries
}

func newTally() tally {
	return tally{
		operations: map[Op]int{}, byRule: map[string]int{}, byKind: map[FaultKind]int{},
		byOp: map[Op]int{}, byName: map[string]int{}, byOwner: map[string]int{},
	}
}

func (t *tally) add(i Injection) {
	t.injected++
	t.byRule[i.Rule]++
	t.byKind[i.Kind]++
	t.byOp[i.Op]++
	bump(t.byName, i.Name)
	bump(t.byOwner, i.Owner)
}

func bump(counts map[string]int, key string) {
	if _, ok := counts[key]; !ok && len(counts) >= maxReported {
		key = others
	}
	counts[key]++
}
