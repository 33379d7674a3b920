package chaos

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// FlakyNetworkOptions configure FlakyNetwork. Zero fields select the defaults.
type FlakyNetworkOptions struct {
	Seed uint64
	// Probability is the probability that a request is lost. A reply is lost with the same
	// probability. Default 0.05. Half of Probability is the probability that a request arrives
	// late, and also that it arrives twice. The wake-ups of a waiter are lost with four times
	// Probability.
	Probability float64
	// MaxDelay is the longest delay of a request; a third of the requests are
	// delayed. Default 50 ms. A request that is delivered late arrives after 10
	// to 40 times MaxDelay.
	MaxDelay time.Duration
}

// FlakyNetwork loses, delays, duplicates and reorders a few requests: a bad day
// in a data centre. Leases should survive this plan, thanks to retries.
func FlakyNetwork(o FlakyNetworkOptions) Plan {
	p, most := cmp.Or(o.Probability, 0.05), cmp.Or(o.MaxDelay, 50*time.Millisecond)
	return Plan{Name: "flaky-network", Seed: o.Seed, Rules: []Rule{
		{Name: "slow request", Fault: Fault{Kind: FaultDelay, Jitter: most}, When: Policy{Probability: 1. / 3}},
		{Name: "request lost", Fault: Fault{Kind: FaultRequestLost, Delay: most}, When: Policy{Probability: p}},
		{Name: "reply lost", Fault: Fault{Kind: FaultReplyLost, Delay: most}, When: Policy{Probability: p}},
		{Name: "request late", Fault: Fault{Kind: FaultDeliveredLate, Delay: 10 * most, Jitter: 30 * most}, When: Policy{Probability: p / 2}},
		{Name: "request twice", Fault: Fault{Kind: FaultAppliedTwice, Jitter: most}, When: Policy{Probability: p / 2}},
		{Name: "wake-ups lost", Fault: Fault{Kind: FaultWakeupsLost}, When: Policy{Probability: min(4*p, 1)}},
	}}
}

// SlowBackendOptions configure SlowBackend. Zero fields select the defaults.
type SlowBackendOptions struct {
	Seed uint64
	// Delay is added to every operation, half before the effect and half after. A random time of up
	// to Jitter is added to each half. Defaults 200 ms and 100 ms.
	Delay, Jitter time.Duration
	// Stall is the probability that an operation takes ten times Delay
	// longer. Default 0.02.
	Stall float64
}

// SlowBackend delays every answer, and a few for much longer: an overloaded
// server. Leases should survive this plan, if the TTL is several times Delay.
func SlowBackend(o SlowBackendOptions) Plan {
	delay, jitter := cmp.Or(o.Delay, 200*time.Millisecond), cmp.Or(o.Jitter, 100*time.Millisecond)
	return Plan{Name: "slow-backend", Seed: o.Seed, Rules: []Rule{
		{Name: "slow request", Fault: Fault{Kind: FaultDelay, Delay: delay / 2, Jitter: jitter}},
		{Name: "slow reply", Fault: Fault{Kind: FaultDelay, Delay: delay / 2, Jitter: jitter, After: true}},
		{Name: "stall", Fault: Fault{Kind: FaultDelay, Delay: 10 * delay, After: true}, When: Policy{Probability: cmp.Or(o.Stall, 0.02)}},
	}}
}

// LostRepliesOptions configure LostReplies. Zero fields select the defaults.
type LostRepliesOptions struct {
	Seed uint64
	// Probability is the probability that a reply is lost. Default 0.2.
	Probability float64
	// Timeout is the time that the caller waits for a lost reply. Default 0, as after a reset of
	// the connection.
	Timeout time.Duration
}

// LostReplies applies every request and loses some of the replies: the case
// that lock libraries get wrong. Leases should survive this plan.
func LostReplies(o LostRepliesOptions) Plan {
	return Plan{Name: "lost-replies", Seed: o.Seed, Rules: []Rule{
		{Name: "reply lost", Fault: Fault{Kind: FaultReplyLost, Delay: o.Timeout}, When: Policy{Probability: cmp.Or(o.Probability, 0.2)}},
	}}
}

// PartitionOptions configure Partition. Zero fields select the defaults.
type PartitionOptions struct {
	Seed uint64
	// Owners and Names are the patterns of the operations that are cut off.
	// Default: all owners that end in an odd digit, which is half of worker-1,
	// worker-2 and so on.
	Owners, Names []string
	// From is the time from Wrap to the first cut, For the length of a cut, and Every the time
	// from the beginning of one cut to the next, at least From + For. Defaults 3 s, 5 s and 15
	// s; Every below 0 means once.
	From, For, Every time.Duration
	// Timeout is the time that a request hangs before it fails. Default: until its context ends.
	Timeout time.Duration
}

// Partition cuts some owners off from the backend for a while. They should
// lose their leases in time, and compete again when the partition is over.
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

// window returns a Policy with a window that repeats.
func window(from, length, every time.Duration) Policy {
	from, length, every = cmp.Or(from, 3*time.Second), cmp.Or(length, 5*time.Second), cmp.Or(every, 15*time.Second)
	w := Policy{From: from, To: from + length}
	if every > 0 {
		w.Repeat = max(every, w.To)
	}
	return w
}

// StealLeaseOptions configure StealLease. Zero fields select the defaults.
type StealLeaseOptions struct {
	Seed uint64
	// Probability is the probability that a renewal finds its lease broken. Default
	// 0.1.
	Probability float64
	// Names are the patterns of the leases that may be broken. Default: all.
	Names []string
	// RunOut refuses further renewals of a broken lease and lets the lease run out. Otherwise the
	// name is free at once, while its holder still trusts the lease.
	RunOut bool
	// Budget bounds the number of broken leases. Default: no bound.
	Budget Budget
}

// StealLease breaks held leases in the same way as an operator. Without RunOut this is the
// documented exception to mutual exclusion: fencing tokens must refuse the former holder's writes.
func StealLease(o StealLeaseOptions) Plan {
	return Plan{Name: "steal-lease", Seed: o.Seed, Rules: []Rule{{
		Name:   "stolen",
		Fault:  Fault{Kind: FaultBroken, RunOut: o.RunOut},
		When:   Policy{Probability: cmp.Or(o.Probability, 0.1)},
		Match:  Match{Ops: []Op{OpRenew}, Names: o.Names},
		Budget: o.Budget,
	}}}
}

// ThrottledAccountOptions configure ThrottledAccount. Zero fields select the defaults.
type ThrottledAccountOptions struct {
	Seed uint64
	// Probability is the probability that a request is refused. Default 0.3.
	Probability float64
	// RetryAfter is the pause that the backend suggests. Default 500 ms.
	RetryAfter time.Duration
	// From, For and Every set the periods in which requests are refused, as in TotalOutageOptions.
	// If all three are 0, there are no such periods: Probability applies at all times.
	From, For, Every time.Duration
}

// ThrottledAccount throttles requests, like an account over its limit. Leases should survive this
// plan.
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

// TotalOutageOptions configure TotalOutage. Zero fields select the defaults.
type TotalOutageOptions struct {
	Seed uint64
	// From is the time from Wrap to the first outage, For the length of an outage, and Every
	// the time from the beginning of one outage to the next, at least From + For. Defaults 3 s,
	// 5 s and 15 s; Every below 0 means once.
	From, For, Every time.Duration
	// Hang makes requests hang until their contexts end. Otherwise they fail at once.
	Hang bool
}

// TotalOutage makes the backend unavailable to all owners for a while. Leases should survive an
// outage shorter than their remaining trust. In a longer outage all leases are lost in time.
func TotalOutage(o TotalOutageOptions) Plan {
	rule := Rule{Name: "outage", Fault: Fault{Kind: FaultError}, When: window(o.From, o.For, o.Every)}
	if o.Hang {
		rule.Fault.Kind = FaultPartitioned
	}
	return Plan{Name: "total-outage", Seed: o.Seed, Rules: []Rule{rule}}
}

// GrayFailureOptions configure GrayFailure. Zero fields select the defaults.
type GrayFailureOptions struct {
	Seed uint64
	// TTL is the TTL of the leases, from which all delays are derived. Default 2 s.
	TTL time.Duration
	// Slow are the patterns of the owners whose replies are slow. Default: all owners that end
	// in 2 or 7, which is a fifth of worker-1, worker-2 and so on.
	Slow []string
	// Probability is the probability that a request hangs and is answered late. It is also the
	// probability that its client pauses for about the time for which it trusts a lease. Default
	// 0.02.
	Probability float64
}

// GrayFailure makes parts of the system fail: replies of some owners are slow, some requests
// hang beyond their context and are answered late, and some clients pause for about the time
// for which they trust a lease. Leases of paused clients should be lost in time, and all others
// should continue.
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

// readyMade maps the name of each ready-made plan to its function.
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

// Named returns the ready-made plan of that name, one of Names, with its
// defaults and the given seed. It is for command lines.
func Named(name string, seed uint64) (Plan, error) {
	plan, ok := readyMade[name]
	if !ok {
		return Plan{}, invalid("plan", name, "one of "+strings.Join(Names(), ", "))
	}
	return plan(seed), nil
}

// Names returns the names of the ready-made plans, sorted. "none" is a plan without
// faults.
func Names() []string { return slices.Sorted(maps.Keys(readyMade)) }
