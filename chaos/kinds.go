package chaos

import "slices"

// Kind is a kind of fault.
type Kind string

// The kinds. "Unknown" is an error that matches leasing.ErrUnavailable and
// leaves open whether the request was applied; all injected errors match
// ErrInjected.
const (
	// Delay takes Delay and Jitter longer, before the request is sent or,
	// with After, before the reply is returned.
	Delay Kind = "delay"
	// Error fails as Fault.Failure says, and nothing is sent. With After the
	// operation takes effect and then fails as Unavailable.
	Error Kind = "error"
	// Throttle is refused by the backend with a *leasing.ThrottledError, with RetryAfter.
	Throttle Kind = "throttle"
	// Hang sends nothing and answers only when the caller's context ends, or
	// after Delay and Jitter where that is set. With After it is the reply that
	// does not come. The result is unknown.
	Hang Kind = "hang"
	// RequestLost sends nothing. The caller gets unknown after Delay and Jitter.
	RequestLost Kind = "request_lost"
	// ReplyLost applies the operation. The caller gets unknown, Delay and
	// Jitter after that.
	ReplyLost Kind = "reply_lost"
	// DeliveredLate returns unknown at once, and the operation is applied after
	// Delay (more than 0) and Jitter, when nobody expects it any more. Hints of
	// a Wait arrive late by that much.
	DeliveredLate Kind = "delivered_late"
	// AppliedTwice applies the operation, and again after Delay and Jitter, as
	// a client does that retries by itself: the caller gets the second answer,
	// or unknown where that one would promise that nothing was applied.
	// Hints of a Wait arrive twice.
	AppliedTwice Kind = "applied_twice"
	// StaleRead answers with what the backend said when it was asked the same
	// before, at least Delay ago: as a replica that lags does. (The backend is asked
	// all the same, for the answers to come.) Nothing happens if
	// there was no such answer.
	StaleRead Kind = "stale_read"
	// Broken breaks the lease of the operation's name, whoever holds it, before
	// the operation or, with After, after it. See Fault.RunOut.
	Broken Kind = "broken"
	// Partitioned cuts the caller off: nothing is sent, and nothing comes back
	// until its context ends, or until Delay and Jitter have passed where that
	// is set; then the result is unknown. The reply is lost too if the cut began
	// while the operation was under way, and hints of a Wait are lost while it lasts.
	Partitioned Kind = "partitioned"
	// HintsLost makes a Wait whose hints never come.
	HintsLost Kind = "hints_lost"
)

// Failure is how an Error fails.
type Failure string

// The failures. Only the first may follow an effect: the others promise that
// there was none.
const (
	Unavailable Failure = "unavailable" // leasing.ErrUnavailable: the outcome is unknown
	Denied      Failure = "denied"      // leasing.ErrDenied: as while credentials have expired
	NotSetUp    Failure = "not_set_up"  // leasing.ErrNotSetUp: as while a table is missing
)

// Op is an operation of a provider.
type Op string

// The operations. RenewBatch is a batch as a whole, which has no name; its items
// are Renew.
const (
	Acquire    Op = "acquire"
	Renew      Op = "renew"
	Release    Op = "release"
	Break      Op = "break"
	Inspect    Op = "inspect"
	List       Op = "list"
	Ping       Op = "ping"
	History    Op = "history"
	Wait       Op = "wait"
	RenewBatch Op = "renew_batch"
)

var (
	allOps  = []Op{Acquire, Renew, Release, Break, Inspect, List, Ping, History, Wait, RenewBatch}
	changes = []Op{Acquire, Renew, Release, Break}
	named   = []Op{Acquire, Renew, Release, Break, Inspect, History, Wait}
	reads   = []Op{Inspect, List, History}
)

// trait is what a kind of fault can do and uses.
type trait struct {
	ops        []Op
	delay      bool // uses Delay and Jitter
	needsDelay bool
	jitter     bool
	after      bool
}

var traits = map[Kind]trait{
	Delay:         {ops: allOps, delay: true, needsDelay: true, jitter: true, after: true},
	Error:         {ops: allOps, after: true},
	Throttle:      {ops: allOps},
	Hang:          {ops: allOps, delay: true, jitter: true, after: true},
	RequestLost:   {ops: allOps, delay: true, jitter: true},
	ReplyLost:     {ops: allOps, delay: true, jitter: true},
	DeliveredLate: {ops: slices.Concat(changes, []Op{Wait}), delay: true, needsDelay: true, jitter: true},
	AppliedTwice:  {ops: slices.Concat(changes, []Op{Wait}), delay: true, jitter: true},
	StaleRead:     {ops: reads, delay: true},
	Broken:        {ops: named, after: true},
	Partitioned:   {ops: allOps, delay: true, jitter: true},
	HintsLost:     {ops: []Op{Wait}},
}
