package chaos

import (
	"cmp"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// operation is a call about which the rules decide.
type operation struct {
	op              Op
	name, id, owner string
	read            any // the request of a read; comparable
	nth             int // the number among operations with the same op, name and owner: set by decide
	attempt         int // the attempt number of the request: set by decide
}

// identity is the key by which operations are counted.
type identity struct {
	op          Op
	name, owner string
}

// rule is a Rule with its counters. Provider.mu guards the fields.
type rule struct {
	Rule
	disabled bool
	seen     int              // operations that matched within the window
	perName  counters[string] // the same, by name
	limit    limiter
	answers  *recent[any, *answers] // of reads, for FaultStaleRead
}

func newRule(r Rule) *rule {
	return &rule{
		Rule: r, disabled: r.Disabled, perName: newCounters[string](),
		limit: newLimiter(r.Budget, r.Rate), answers: newRecent[any, *answers](2 * minRecent),
	}
}

// concerns reports whether the rule applies to an operation at all.
func (r *rule) concerns(o operation) bool {
	if r.disabled {
		return false
	}
	if len(r.Match.Ops) == 0 {
		if o.op == OpRenewBatch || !slices.Contains(traits[r.Fault.Kind].ops, o.op) {
			return false
		}
	} else if !slices.Contains(r.Match.Ops, o.op) {
		return false
	}
	return fitsAny(r.Match.Names, o.name) && fitsAny(r.Match.Owners, o.owner)
}

// count counts an operation that matches, and returns its position.
func (r *rule) count(name string) int {
	r.seen++
	if r.When.PerName {
		return r.perName.add(name)
	}
	return r.seen
}

// occurrence is a fault that happens to an operation.
type occurrence struct {
	rule   *rule
	delay  time.Duration
	answer any       // of a FaultStaleRead
	custom Operation // of a FaultCustom
}

func (f *occurrence) fault() Fault { return f.rule.Fault }

func (f *occurrence) kind() FaultKind { return f.rule.Fault.Kind }

// after reports whether the fault happens after the effect.
func (f *occurrence) after() bool { return f.rule.Fault.After }

// wait returns the time for which the caller gets no answer.
func (f *occurrence) wait() time.Duration {
	switch kind := f.kind(); {
	case kind == FaultDeliveredLate:
		return 0
	case f.delay == 0 && traits[kind].hangs:
		return abstractions.Infinite
	}
	return f.delay
}

// hasAnswer reports whether the caller gets the backend's answer.
func (f *occurrence) hasAnswer() bool { return traits[f.kind()].answer }

// appliesFirst reports whether the operation takes effect before it fails.
func (f *occurrence) appliesFirst() bool { return f.after() || f.kind() == FaultReplyLost }

// decision holds the faults that happen to one operation.
type decision struct {
	delays []*occurrence // of kind FaultDelay
	main   *occurrence   // the fault of another kind; nil if there is none
}

// decide applies each rule once to an operation and returns the faults to inject. It fills in the
// owner and the number of the operation.
func (p *Provider) decide(o *operation) decision {
	d, all := p.consult(o)
	for _, one := range all {
		p.protect(func() { p.options.OnDecision(one) })
	}
	return d
}

// consult does the work of decide under mu, and also returns the decisions for Options.OnDecision.
func (p *Provider) consult(o *operation) (d decision, all []Decision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.identify(o)
	since := time.Since(p.start)
	p.report.Operations[o.op]++
	for _, r := range p.rules {
		position, reason := p.consider(r, *o, since, &d)
		if p.options.OnDecision != nil {
			all = append(all, Decision{
				Rule: r.Name, Kind: r.Fault.Kind, Op: o.op, Name: o.name, Fingerprint: abstractions.FingerprintOf(o.id), Owner: o.owner,
				Nth: o.nth, Attempt: o.attempt, Since: since, Position: position, Happens: reason == "", Reason: reason,
			})
		}
	}
	return d, all
}

// consider applies one rule to an operation. It adds the fault to d, or returns the reason why
// the fault does not happen. The position is the number of the operation among the operations
// that the policy counts. Caller holds mu.
func (p *Provider) consider(r *rule, o operation, since time.Duration, d *decision) (position int, reason Reason) {
	switch {
	case r.disabled:
		return 0, ReasonDisabled
	case !r.concerns(o):
		return 0, ReasonMatch
	case !r.Match.includesAttempt(o.attempt):
		return 0, ReasonAttempt
	case !r.When.open(since):
		return 0, ReasonWindow
	}
	position = r.count(o.name)
	if !r.When.counts(position) {
		return position, ReasonCount
	}
	random := draw(p.plan.Seed, r.Name, o, o.nth)
	if !r.When.hits(random.happens) {
		return position, ReasonProbability
	}
	if custom := r.When.Custom; custom != nil && !p.callPolicy(custom, o.forRule(r, since, random.seed[0], random.seed[1])) {
		return position, ReasonPolicy
	}
	hit := &occurrence{rule: r, delay: r.Fault.duration(random.jitter)}
	if hit.kind() == FaultCustom {
		hit.custom = o.forRule(r, since, random.seed[1], random.seed[0])
	}
	isDelay := hit.kind() == FaultDelay
	if !isDelay && d.main != nil {
		return position, ReasonOther
	}
	if reason := p.admit(hit, o, since); reason != "" {
		return position, reason
	}
	if isDelay {
		d.delays = append(d.delays, hit)
	} else {
		d.main = hit
	}
	return position, ""
}

// identify sets the owner of an operation, and counts the operation.
func (p *Provider) identify(o *operation) {
	switch {
	case o.id == "":
	case o.owner != "":
		p.owners.put(o.id, o.owner)
	default:
		o.owner, _ = p.owners.get(o.id)
	}
	if o.owner == "" {
		o.owner = p.options.Owner
	}
	o.nth = p.counts.add(identity{o.op, o.name, o.owner})
	o.attempt = 1 + p.failures.of(o.request())
}

// duration returns the time that a fault takes.
func (f Fault) duration(random float64) time.Duration {
	return sum(f.Delay, time.Duration(float64(f.Jitter)*random))
}

// admit counts a fault that is possible now and within its limits. Otherwise it returns the reason
// why the fault does not happen.
func (p *Provider) admit(hit *occurrence, o operation, since time.Duration) Reason {
	switch hit.kind() {
	case FaultStaleRead:
		known, ok := hit.rule.answers.get(o.read)
		if ok {
			hit.answer = known.before(since - hit.fault().Delay)
		}
		if hit.answer == nil {
			return ReasonNoAnswer
		}
	case FaultDeliveredLate:
		if p.report.Late.Pending >= maxLate && o.op != OpWait {
			return ReasonPending
		}
	case FaultPartitioned:
		return "" // limits don't apply: a partition is a state, and dropping only some of the packets is another fault
	}
	if reason := cmp.Or(p.limit.refuses(o.name, since), hit.rule.limit.refuses(o.name, since)); reason != "" {
		return reason
	}
	p.limit.take(o.name, since)
	hit.rule.limit.take(o.name, since)
	return ""
}

// partition returns the partition that currently cuts an operation off, or nil. It reads only the
// clock, and changes no counter.
func (p *Provider) partition(o operation) *occurrence {
	if !p.partitions || p.inactive.Load() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if owner, known := p.owners.get(o.id); known { // the owner may have become known since the operation began
		o.owner = owner
	}
	since := time.Since(p.start)
	for _, r := range p.rules {
		if r.Fault.Kind == FaultPartitioned && r.concerns(o) && r.When.open(since) {
			return &occurrence{rule: r, delay: r.Fault.Delay}
		}
	}
	return nil
}
