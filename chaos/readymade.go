package chaos

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// FlakyNetworkOptions configure FlakyNetwork. Zero fields have the defaults.
type FlakyNetworkOptions struct {
	Seed uint64
	// Probability is how likely a request or its reply is lost. Default 0.05.
	// Half as many requests arrive late, or twice. Of the hints that waiters
	// get four times as many are lost.
	Probability float64
	// MaxDelay is the longest that a request takes to arrive; each of three
	// does so. Default 50 ms. A request that is delivered late is so by 10 to 40
	// times that.
	MaxDelay time.Duration
}

// FlakyNetwork loses, delays, doubles and reorders a few requests: a bad day in
// a data centre. Leases should survive it, by retries.
func FlakyNetwork(o FlakyNetworkOptions) Plan {
	p, most := cmp.Or(o.Probability, 0.05), cmp.Or(o.MaxDelay, 50*time.Millisecond)
	return Plan{Name: "flaky-network", Seed: o.Seed, Rules: []Rule{
		{Name: "slow request", Fault: Fault{Kind: FaultDelay, Jitter: most}, When: Policy{Probability: 1. / 3}},
		{Name: "request lost", Fault: Fault{Kind: FaultRequestLost, Delay: most}, When: Policy{Probability: p}},
		{Name: "reply lost", Fault: Fault{Kind: FaultReplyLost, Delay: most}, When: Policy{Probability: p}},
		{Name: "request late", Fault: Fault{Kind: FaultDeliveredLate, Delay: 10 * most, Jitter: 30 * most}, When: Policy{Probability: p / 2}},
		{Name: "request twice", Fault: Fault{Kind: FaultAppliedTwice, Jitter: most}, When: Policy{Probability: p / 2}},
		{Name: "hints lost", Fault: Fault{Kind: FaultHintsLost}, When: Policy{Probability: min(4*p, 1)}},
	}}
}

// SlowBackendOptions configure SlowBackend. Zero fields have the defaults.
type SlowBackendOptions struct {
	Seed uint64
	// Delay is what every operation takes longer, half of it before and half
	// after its effect, and Jitter a random part on top of each half. Defaults
	// 200 ms and 100 ms.
	Delay, Jitter time.Duration
	// Stall is how likely an operation does not come back for ten times as
	// long. Default 0.02.
	Stall float64
}

// SlowBackend makes every answer late and a few very late: an overloaded
// server. Leases should survive it, if the TTL is several times Delay.
func SlowBackend(o SlowBackendOptions) Plan {
	delay, jitter := cmp.Or(o.Delay, 200*time.Millisecond), cmp.Or(o.Jitter, 100*time.Millisecond)
	return Plan{Name: "slow-backend", Seed: o.Seed, Rules: []Rule{
		{Name: "slow request", Fault: Fault{Kind: FaultDelay, Delay: delay / 2, Jitter: jitter}},
		{Name: "slow reply", Fault: Fault{Kind: FaultDelay, Delay: delay / 2, Jitter: jitter, After: true}},
		{Name: "stall", Fault: Fault{Kind: FaultDelay, Delay: 10 * delay, After: true}, When: Policy{Probability: cmp.Or(o.Stall, 0.02)}},
	}}
}

// LostRepliesOptions configure LostReplies. Zero fields have the defaults.
type LostRepliesOptions struct {
	Seed uint64
	// Probability is how likely a reply is lost. Default 0.2.
	Probability float64
	// Timeout is how long the caller waits for it. Default: not at all, as when
	// the connection is reset.
	Timeout time.Duration
}

// LostReplies applies everything and keeps a part of the answers: the case that
// lock libraries get wrong. Leases should survive it.
func LostReplies(o LostRepliesOptions) Plan {
	return Plan{Name: "lost-replies", Seed: o.Seed, Rules: []Rule{
		{Name: "reply lost", Fault: Fault{Kind: FaultReplyLost, Delay: o.Timeout}, When: Policy{Probability: cmp.Or(o.Probability, 0.2)}},
	}}
}

// PartitionOptions configure Partition. Zero fields have the defaults.
type PartitionOptions struct {
	Seed uint64
	// Owners and Names are the patterns of who is cut off. Default: the owners
	// whose names end in an odd digit, as do half of worker-1, worker-2 and so on.
	Owners, Names []string
	// From is when it begins, For how long it lasts, and Every the time from one
	// beginning to the next. Defaults 3 s, 5 s and 15 s; Every below 0: only once.
	From, For, Every time.Duration
	// Timeout is when a request fails. Default: it hangs until its context ends.
	Timeout time.Duration
}

// Partition cuts some off from the backend for a while. They should lose their
// leases in time, and take part again when it is over.
func Partition(o PartitionOptions) Plan {
	if len(o.Owners) == 0 && len(o.Names) == 0 {
		o.Owners = []string{"*1", "*3", "*5", "*7", "*9"}
	}
	return Plan{Name: "partition", Seed: o.Seed, Rules: []Rule{{
		Name:  "cut off",
		Fault: Fault{Kind: FaultPartitioned, Delay: o.Timeout},
		When:  window(o.From, o.For, o.Every),
		Match: Match{Owners: o.Owners, Names: o.Names},
	}}}
}

// window is a Policy that holds for a while, again and again.
func window(from, length, every time.Duration) Policy {
	from, length, every = cmp.Or(from, 3*time.Second), cmp.Or(length, 5*time.Second), cmp.Or(every, 15*time.Second)
	w := Policy{From: from, To: from + length}
	if every > 0 {
		w.Repeat = max(every, w.To)
	}
	return w
}

// StealLeaseOptions configure StealLease. Zero fields have the defaults.
type StealLeaseOptions struct {
	Seed uint64
	// Probability is how likely a lease is broken when it is renewed. Default 0.1.
	Probability float64
	// Names are the patterns of leases that may be. Default: all.
	Names []string
	// RunOut refuses renewals and lets the lease run out. Otherwise it is free at
	// once, beside its holder.
	RunOut bool
	// Budget bounds how many are. Default: no bound.
	Budget Budget
}

// StealLease breaks leases under their holders, as an operator does. It is the
// stated exception to mutual exclusion: what the holder still writes has to be
// refused by its fencing token.
func StealLease(o StealLeaseOptions) Plan {
	return Plan{Name: "steal-lease", Seed: o.Seed, Rules: []Rule{{
		Name:   "stolen",
		Fault:  Fault{Kind: FaultBroken, RunOut: o.RunOut},
		When:   Policy{Probability: cmp.Or(o.Probability, 0.1)},
		Match:  Match{Ops: []Op{OpRenew}, Names: o.Names},
		Budget: o.Budget,
	}}}
}

// ThrottledAccountOptions configure ThrottledAccount. Zero fields have the defaults.
type ThrottledAccountOptions struct {
	Seed uint64
	// Probability is how likely a request is refused. Default 0.3.
	Probability float64
	// RetryAfter is when the backend suggests to ask again. Default 500 ms.
	RetryAfter time.Duration
	// From, For and Every are when that is so. Default: always.
	From, For, Every time.Duration
}

// ThrottledAccount refuses requests for now, and says so: an account over its
// limit. Leases should survive it.
func ThrottledAccount(o ThrottledAccountOptions) Plan {
	when := Policy{}
	if o.From != 0 || o.For != 0 || o.Every != 0 {
		when = window(o.From, o.For, o.Every)
	}
	when.Probability = cmp.Or(o.Probability, 0.3)
	return Plan{Name: "throttled-account", Seed: o.Seed, Rules: []Rule{{
		Name: "throttled", Fault: Fault{Kind: FaultThrottle, RetryAfter: cmp.Or(o.RetryAfter, 500*time.Millisecond)}, When: when,
	}}}
}

// TotalOutageOptions configure TotalOutage. Zero fields have the defaults.
type TotalOutageOptions struct {
	Seed uint64
	// From is when it begins, For how long it lasts, and Every the time from one
	// beginning to the next. Defaults 3 s, 5 s and 15 s; Every below 0: only once.
	From, For, Every time.Duration
	// Hang makes requests hang until their contexts end. Otherwise they fail at once.
	Hang bool
}

// TotalOutage takes the backend away from everybody for a while. An outage
// shorter than what is left of the leases should harm nobody; in a longer one all
// leases are lost, in time.
func TotalOutage(o TotalOutageOptions) Plan {
	rule := Rule{Name: "outage", Fault: Fault{Kind: FaultError}, When: window(o.From, o.For, o.Every)}
	if o.Hang {
		rule.Fault.Kind = FaultPartitioned
	}
	return Plan{Name: "total-outage", Seed: o.Seed, Rules: []Rule{rule}}
}

// GrayFailureOptions configure GrayFailure. Zero fields have the defaults.
type GrayFailureOptions struct {
	Seed uint64
	// TTL is that of the leases, which decides how long things take. Default 2 s.
	TTL time.Duration
	// Slow are the patterns of the owners whose replies are slow. Default: one of five, by the
	// last digit of worker-1, worker-2 and so on.
	Slow []string
	// Probability is how likely a request hangs and is answered in the end, or its client
	// pauses for about as long as it trusts a lease. Default 0.02 each.
	Probability float64
}

// GrayFailure makes some fail in part: their replies are slow, their requests hang longer than
// anybody waits and are answered all the same, their clients pause for as long as they trust a
// lease. Those leases are lost in time, and the others go on.
func GrayFailure(o GrayFailureOptions) Plan {
	p, ttl := cmp.Or(o.Probability, 0.02), cmp.Or(o.TTL, 2*time.Second)
	if len(o.Slow) == 0 {
		o.Slow = []string{"*2", "*7"}
	}
	changes := []Op{OpAcquire, OpRenew, OpRelease}
	return Plan{Name: "gray-failure", Seed: o.Seed, Rules: []Rule{
		{Name: "slow reply", Fault: Fault{Kind: FaultDelay, Delay: ttl / 20, Jitter: ttl / 5, After: true}, Match: Match{Owners: o.Slow}},
		{Name: "paused", Fault: Fault{Kind: FaultDelay, Delay: ttl * 9 / 10, Jitter: ttl / 5}, When: Policy{Probability: p}, Match: Match{Ops: changes}},
		{Name: "hang, answered late", Fault: Fault{Kind: FaultDelay, Delay: ttl / 2, Jitter: ttl, After: true, Heedless: true}, When: Policy{Probability: p}, Match: Match{Ops: changes}},
	}}
}

// readyMade are the plans by the names that they have themselves.
var readyMade = map[string]func(seed uint64) Plan{
	"none":              func(seed uint64) Plan { return Plan{Name: "none", Seed: seed} },
	"flaky-network":     func(seed uint64) Plan { return FlakyNetwork(FlakyNetworkOptions{Seed: seed}) },
	"slow-backend":      func(seed uint64) Plan { return SlowBackend(SlowBackendOptions{Seed: seed}) },
	"lost-replies":      func(seed uint64) Plan { return LostReplies(LostRepliesOptions{Seed: seed}) },
	"partition":         func(seed uint64) Plan { return Partition(PartitionOptions{Seed: seed}) },
	"steal-lease":       func(seed uint64) Plan { return StealLease(StealLeaseOptions{Seed: seed}) },
	"gray-failure":      func(seed uint64) Plan { return GrayFailure(GrayFailureOptions{Seed: seed}) },
	"throttled-account": func(seed uint64) Plan { return ThrottledAccount(ThrottledAccountOptions{Seed: seed}) },
	"total-outage":      func(seed uint64) Plan { return TotalOutage(TotalOutageOptions{Seed: seed}) },
}

// Named returns a ready-made plan with its defaults, for a command line: one of
// Names.
func Named(name string, seed uint64) (Plan, error) {
	plan, ok := readyMade[name]
	if !ok {
		return Plan{}, invalid("plan", name, "one of "+strings.Join(Names(), ", "))
	}
	return plan(seed), nil
}

// Names returns the names of the ready-made plans.
func Names() []string { return slices.Sorted(maps.Keys(readyMade)) }
