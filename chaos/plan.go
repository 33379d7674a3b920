package chaos

import "time"

// Plan says which faults happen, to which operations, and when. The zero value
// is a plan without faults.
//
// In JSON the fields have the names in their tags, and durations are written as
// in Go: "1.5s". A field that does not exist, or stands there twice, is an error that
// names it.
type Plan struct {
	// Name is shown in reports.
	Name string `json:"name,omitempty"`
	// Seed decides whatever is left to chance. The same seed, plan and
	// operations give the same faults: see the package documentation.
	Seed uint64 `json:"seed,omitempty"`
	// Rules are asked about each operation in this order, those about partitions
	// first. Delays of several rules add up; of the other faults only the first
	// happens.
	Rules []Rule `json:"rules"`
	// Budget and Rate bound the faults of all rules together, but for partitions,
	// which are states.
	Budget Budget `json:"budget,omitzero"`
	Rate   Rate   `json:"rate,omitzero"`
}

// Rule is one fault with the conditions under which it happens: it happens to
// the operations that match, when the policy says so, as long as budget and
// rate allow.
type Rule struct {
	// Name is how reports, Provider.Enable and Provider.Disable call the rule.
	// Names differ. Default: the fault's kind, with "-2" for the second rule
	// that would have it, and so on.
	Name  string `json:"name,omitempty"`
	Fault Fault  `json:"fault"`
	When  Policy `json:"when,omitzero"`
	Match Match  `json:"match,omitzero"`
	// Budget and Rate bound the faults of this rule.
	Budget Budget `json:"budget,omitzero"`
	Rate   Rate   `json:"rate,omitzero"`
	// Disabled rules wait for Provider.Enable.
	Disabled bool `json:"disabled,omitempty"`
}

// Fault is what happens. Which fields a kind uses is said at the kinds; a field
// that the kind does not use is an error.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Delay is a time that the kind explains, and Jitter a random part that is
	// added to it: up to Jitter.
	Delay  time.Duration `json:"delay,omitzero"`
	Jitter time.Duration `json:"jitter,omitzero"`
	// After makes the fault happen after the operation took effect at the
	// backend, and not before it is sent.
	After bool `json:"after,omitempty"`
	// Heedless makes a FaultDelay last although the caller's context has ended, as a disk
	// does that hangs in a sync. A wrapper whose plan has such a rule says in its
	// Capabilities that it does not heed contexts.
	Heedless bool `json:"heedless,omitempty"`
	// RetryAfter is when a FaultThrottle suggests to ask again; 0: it does not say.
	RetryAfter time.Duration `json:"retry_after,omitzero"`
	// Failure is how a FaultError fails. Default FailureUnavailable.
	Failure Failure `json:"failure,omitempty"`
	// RunOut makes FaultBroken refuse further renewals and let the lease run out,
	// which keeps mutual exclusion. Otherwise the name is free at once, while
	// its holder believes in its lease: the stated exception to it.
	RunOut bool `json:"run_out,omitempty"`
}

// Policy says to which of the matching operations a rule's fault happens: to
// those for which all that is set says so. The zero value says: to all. It is
// asked exactly once about each operation; a batch of renewals is as many
// operations as it has items.
type Policy struct {
	// From and To bound the time since Wrap in which the rule is asked at all;
	// To 0 means without end. Repeat, unless 0, begins that window again after
	// each such time: From 2s, To 3s, Repeat 10s is the third second of each
	// ten. Operations outside of the window are not counted by the fields below.
	From   time.Duration `json:"from,omitzero"`
	To     time.Duration `json:"to,omitzero"`
	Repeat time.Duration `json:"repeat,omitzero"`
	// Skip lets so many operations pass first.
	Skip int `json:"skip,omitempty"`
	// First, unless 0, is how many operations after those skipped may fail.
	First int `json:"first,omitempty"`
	// Every, unless 0, takes every nth operation after those skipped.
	Every int `json:"every,omitempty"`
	// Sequence, unless "", decides about the operations after those skipped one
	// by one: "x..x" is a fault, none, none, a fault. After its end there are
	// no more.
	Sequence string `json:"sequence,omitempty"`
	// Probability, unless 0, is how likely the fault is: more than 0, at most 1.
	// In JSON a probability of 0 is an error: leave it out for always.
	Probability float64 `json:"probability,omitempty"`
	// PerName counts the operations on each name by themselves.
	PerName bool `json:"per_name,omitempty"`
}

// Match chooses operations: those for which each field that is set has one
// entry that fits. The zero value chooses all that the fault can happen to, but
// no OpRenewBatch as a whole: its items are OpRenew.
type Match struct {
	Ops []Op `json:"ops,omitempty"`
	// Names and Owners are patterns, in which * stands for any number of
	// characters. Operations without a name (OpList, OpPing, OpRenewBatch) match no
	// pattern, not even "*". The owner is the one that an ID was acquired for, or
	// Options.Owner where that is not known.
	Names  []string `json:"names,omitempty"`
	Owners []string `json:"owners,omitempty"`
}

// Budget caps the number of faults; 0 means no limit.
type Budget struct {
	Total   int `json:"total,omitempty"`
	PerName int `json:"per_name,omitempty"`
}

// Rate caps the faults in any stretch of time: at most Count within Per. The
// zero value means no limit; otherwise both are set.
type Rate struct {
	Count int           `json:"count,omitempty"`
	Per   time.Duration `json:"per,omitzero"`
}
