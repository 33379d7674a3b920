package chaos

import "time"

// Plan says which faults happen, to which operations, and when. The zero value
// is a plan without faults.
//
// In JSON the fields have the names in their tags, and durations are written as in
// Go: "1.5s". An unknown or duplicate field is an error that names the field.
type Plan struct {
	// Name is shown in reports.
	Name string `json:"name,omitempty"`
	// Seed determines all random choices. The same seed, plan and operations
	// give the same faults: see the package documentation.
	Seed uint64 `json:"seed,omitempty"`
	// Rules are applied to each operation in this order, except that
	// FaultPartitioned rules come before all others. Delays of several rules
	// add up; of the other faults only the first in order happens.
	Rules []Rule `json:"rules"`
	// Budget and Rate bound the faults of all rules together. Partitions do not count, since they
	// are states.
	Budget Budget `json:"budget,omitzero"`
	Rate   Rate   `json:"rate,omitzero"`
}

// Rule is one fault with its conditions. The fault happens to the operations
// that match, when the policy chooses them, within the budget and the rate.
type Rule struct {
	// Name identifies the rule in reports, Provider.Enable and
	// Provider.Disable. It must be unique. Default: the fault's kind, with
	// "-2" appended for the second rule of that kind, and so on.
	Name  string `json:"name,omitempty"`
	Fault Fault  `json:"fault"`
	When  Policy `json:"when,omitzero"`
	Match Match  `json:"match,omitzero"`
	// Budget and Rate bound the faults of this rule.
	Budget Budget `json:"budget,omitzero"`
	Rate   Rate   `json:"rate,omitzero"`
	// Disabled turns the rule off until Provider.Enable.
	Disabled bool `json:"disabled,omitempty"`
}

// Fault describes an effect on an operation. Each FaultKind documents the fields that it uses;
// setting any other field is an error.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Delay is a time whose meaning depends on the kind. A random time of up to Jitter is added to
	// Delay.
	Delay  time.Duration `json:"delay,omitzero"`
	Jitter time.Duration `json:"jitter,omitzero"`
	// After makes the fault happen after the operation took effect at the
	// backend, instead of before it is sent.
	After bool `json:"after,omitempty"`
	// Heedless makes a FaultDelay continue after the caller's context has ended, like a
	// disk that hangs in a sync. The Capabilities of a wrapper with such a rule have
	// HeedsContext false.
	Heedless bool `json:"heedless,omitempty"`
	// RetryAfter is the pause that a FaultThrottle suggests; 0 means no suggestion.
	RetryAfter time.Duration `json:"retry_after,omitzero"`
	// Failure is the error of a FaultError. Default FailureUnavailable.
	Failure Failure `json:"failure,omitempty"`
	// RunOut makes FaultBroken refuse further renewals and let the lease run out,
	// which keeps mutual exclusion. Otherwise the name is free at once, while its
	// holder still trusts the lease: the documented exception to mutual
	// exclusion.
	RunOut bool `json:"run_out,omitempty"`
	// Custom is the code of a FaultCustom. json.Marshal returns an error for a plan that has
	// such code.
	Custom CustomFault `json:"-"`
}

// Policy chooses among the operations that match a rule: the fault happens to
// an operation if each set field chooses the operation. The zero value chooses
// all operations. A policy decides exactly once about each operation; each item
// of a batch of renewals is an operation.
type Policy struct {
	// From and To bound the window in which the rule applies, as times since
	// Wrap; To 0 means no end. Repeat, unless 0, is the period after which the
	// window repeats: From 2s, To 3s, Repeat 10s is the third second of every
	// ten. The fields below do not count operations outside of the window.
	From   time.Duration `json:"from,omitzero"`
	To     time.Duration `json:"to,omitzero"`
	Repeat time.Duration `json:"repeat,omitzero"`
	// Skip is the number of operations that pass before the first that may fail.
	Skip int `json:"skip,omitempty"`
	// First, unless 0, is the number of operations after the skipped ones that may fail.
	First int `json:"first,omitempty"`
	// Every, unless 0, chooses every nth operation after the skipped ones.
	Every int `json:"every,omitempty"`
	// Sequence, unless "", decides about each operation after the skipped ones:
	// in "x..x" the first and the fourth operation get the fault. There are no
	// faults after its end.
	Sequence string `json:"sequence,omitempty"`
	// Probability, unless 0, is the probability of the fault, at most 1. In JSON a probability of 0
	// is an error: omit the field to choose all operations.
	Probability float64 `json:"probability,omitempty"`
	// PerName counts the operations on each name separately.
	PerName bool `json:"per_name,omitempty"`
	// Custom, unless nil, decides about the operations that the other fields choose.
	// json.Marshal returns an error for a plan that has a Custom policy.
	Custom CustomPolicy `json:"-"`
}

// Match chooses operations: in each field that is set, one entry must fit. The
// zero value chooses all operations to which the fault can happen, except
// OpRenewBatch as a whole; its items are OpRenew.
type Match struct {
	Ops []Op `json:"ops,omitempty"`
	// Names and Owners are patterns, in which * stands for any number of characters. Operations
	// without a name (OpList, OpPing, OpRenewBatch) match no pattern, not even "*". The owner
	// is the Owner of the Acquire request with the same ID, or Options.Owner if that request is
	// unknown.
	Names  []string `json:"names,omitempty"`
	Owners []string `json:"owners,omitempty"`
	// MinAttempt and MaxAttempt, unless 0, bound the attempt number. The number is 1 plus the
	// failures of the same request since its last answer; see the package documentation.
	// Partitions have no attempts.
	MinAttempt int `json:"min_attempt,omitempty"`
	MaxAttempt int `json:"max_attempt,omitempty"`
	// OnlyOnRetry chooses attempts from the second on, like MinAttempt 2.
	OnlyOnRetry bool `json:"only_on_retry,omitempty"`
}

// Budget caps the number of faults; 0 means no limit.
type Budget struct {
	Total   int `json:"total,omitempty"`
	PerName int `json:"per_name,omitempty"`
}

// Rate limits the faults to Count in any period of length Per. The zero value means no limit;
// otherwise set both.
type Rate struct {
	Count int           `json:"count,omitempty"`
	Per   time.Duration `json:"per,omitzero"`
}
