package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Report counts the operations and injected faults of a wrapper.
type Report struct {
	Plan string `json:"plan,omitempty"`
	Seed uint64 `json:"seed"`
	// Operations counts the calls while the plan was enabled: each item of a batch of renewals
	// counts as one call, and so does the batch as a whole.
	Operations map[Op]int `json:"operations"`
	// Injected is the number of faults, and the maps count the same faults.
	Injected int               `json:"injected"`
	ByRule   map[string]int    `json:"by_rule"` // 0 for a rule whose fault never happened
	ByKind   map[FaultKind]int `json:"by_kind"`
	ByOp     map[Op]int        `json:"by_op"`
	ByName   map[string]int    `json:"by_name"` // the first 1024 names, and all others under "(others)"
	ByOwner  map[string]int    `json:"by_owner"`
	Late     LateDeliveries    `json:"late"`
	// Panics counts the panics of CustomFault, CustomPolicy, Options.Observer,
	// Options.OnDecision and telemetry.
	Panics int `json:"panics,omitempty"`
}

// LateDeliveries counts the operations that FaultDeliveredLate delayed, by outcome.
type LateDeliveries struct {
	Applied int `json:"applied"` // the backend accepted them
	Refused int `json:"refused"` // the backend refused them, or did not answer
	Dropped int `json:"dropped"` // the wrapper was closed before or during their delivery
	Pending int `json:"pending"` // not yet delivered
}

// maxReported bounds the names, and the owners, that have a count of their own.
const maxReported = 1 << 10

const others = "(others)"

// Report returns the counts of operations and injected faults so far.
func (p *Provider) Report() Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.report
	r.Operations, r.ByRule, r.ByKind = maps.Clone(r.Operations), maps.Clone(r.ByRule), maps.Clone(r.ByKind)
	r.ByOp, r.ByName, r.ByOwner = maps.Clone(r.ByOp), maps.Clone(r.ByName), maps.Clone(r.ByOwner)
	return r
}

// Unused returns the names of the rules whose fault never happened, sorted. A test that passes says
// nothing about these rules.
func (r Report) Unused() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.ByRule)) {
		if r.ByRule[name] == 0 {
			names = append(names, name)
		}
	}
	return names
}

// String returns the report as a few lines of text.
func (r Report) String() string {
	var b strings.Builder
	operations := 0
	for _, n := range r.Operations {
		operations += n
	}
	fmt.Fprintf(&b, "chaos: plan %q, seed %d: %d faults in %d operations\n", r.Plan, r.Seed, r.Injected, operations)
	section(&b, "rules", r.ByRule)
	section(&b, "kinds", r.ByKind)
	section(&b, "operations", r.ByOp)
	section(&b, "names", r.ByName)
	section(&b, "owners", r.ByOwner)
	if r.Late != (LateDeliveries{}) {
		fmt.Fprintf(&b, "  late: %d applied, %d refused, %d dropped, %d pending\n", r.Late.Applied, r.Late.Refused, r.Late.Dropped, r.Late.Pending)
	}
	if r.Panics > 0 {
		fmt.Fprintf(&b, "  panics: %d\n", r.Panics)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// maxShown bounds the printed entries of a section.
const maxShown = 10

// section prints counts in descending order.
func section[K ~string](b *strings.Builder, title string, counts map[K]int) {
	if len(counts) == 0 {
		return
	}
	keys := slices.SortedFunc(maps.Keys(counts), func(x, y K) int {
		return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y))
	})
	parts := make([]string, 0, maxShown+1)
	for _, key := range keys[:min(len(keys), maxShown)] {
		parts = append(parts, fmt.Sprintf("%s %d", cmp.Or(string(key), "(none)"), counts[key]))
	}
	if more := len(keys) - maxShown; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	fmt.Fprintf(b, "  %s: %s\n", title, strings.Join(parts, ", "))
}

func newReport(p Plan) Report {
	r := Report{
		Plan: p.Name, Seed: p.Seed, Operations: map[Op]int{}, ByRule: map[string]int{}, ByKind: map[FaultKind]int{},
		ByOp: map[Op]int{}, ByName: map[string]int{}, ByOwner: map[string]int{},
	}
	for _, rule := range p.Rules {
		r.ByRule[rule.Name] = 0
	}
	return r
}

func (r *Report) add(i Injection) {
	r.Injected++
	r.ByRule[i.Rule]++
	r.ByKind[i.Kind]++
	r.ByOp[i.Op]++
	increment(r.ByName, i.Name)
	increment(r.ByOwner, i.Owner)
}

func increment(counts map[string]int, key string) {
	if _, ok := counts[key]; !ok && len(counts) >= maxReported {
		key = others
	}
	counts[key]++
}
