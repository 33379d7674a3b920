package chaos

import "slices"

// FaultKind is a kind of fault.
type FaultKind string

// The kinds. "Unknown" is an error that matches leasing.ErrUnavailable and
// leaves open whether the request was applied; all injected errors match
// ErrInjected.
const (
	// FaultDelay takes Delay and Jitter longer, before the request is sent or,
	// with After, before the reply is returned.
	FaultDelay FaultKind = "delay"
	// FaultError fails as Fault.Failure says, and nothing is sent. With After the
	// operation takes effect and then fails as FailureUnavailable.
	FaultError FaultKind = "error"
	// FaultThrottle is refused by the backend with a *leasing.ThrottledError, with RetryAfter.
	FaultThrottle FaultKind = "throttle"
	// FaultHang sends nothing and answers only when the caller's context ends, or
	// after Delay and Jitter where that is set. With After it is the reply that
	// does not come. The result is unknown.
	FaultHang FaultKind = "hang"
	// FaultRequestLost sends nothing. The caller gets unknown after Delay and Jitter.
	FaultRequestLost FaultKind = "request_lost"
	// FaultReplyLost applies the operation. The caller gets unknown, Delay and
	// Jitter after that.
	FaultReplyLost FaultKind = "reply_lost"
	// FaultDeliveredLate returns unknown at once, and the operation is applied after
	// Delay (more than 0) and Jitter, when nobody expects it any more. Hints of
	// a Wait arrive late by that much.
	FaultDeliveredLate FaultKind = "delivered_late"
	// FaultAppliedTwice applies the operation, and again after Delay and Jitter, as
	// a client does that retries by itself: the caller gets the second answer,
	// or unknown where that one would promise that nothing was applied.
	// Hints of a Wait arrive twice.
	FaultAppliedTwice FaultKind = "applied_twice"
	// FaultStaleRead answers with what the backend said when it was asked the same
	// before, at least Delay ago: as a replica that lags does. (The backend is asked
	// all the same, for the answers to come.) Nothing happens if
	// there was no such answer.
	FaultStaleRead FaultKind = "stale_read"
	// FaultBroken breaks the lease of the operation's name, whoever holds it, before
	// the operation or, with After, after it. See Fault.RunOut.
	FaultBroken FaultKind = "broken"
	// FaultPartitioned cuts the caller off: nothing is sent, and nothing comes back
	// until its context ends, or until Delay and Jitter have passed where that
	// is set; then the result is unknown. The reply is lost too if the cut began
	// while the operation was under way, and hints of a Wait are lost while it lasts.
	FaultPartitioned FaultKind = "partitioned"
	// FaultHintsLost makes a Wait whose hints never come.
	FaultHintsLost FaultKind = "hints_lost"
)

// Failure is how a FaultError fails.
type Failure string

// The failures. Only the first may follow an effect: the others promise that
// there was none.
const (
	FailureUnavailable Failure = "unavailable" // leasing.ErrUnavailable: the outcome is unknown
	FailureDenied      Failure = "denied"      // leasing.ErrDenied: as while credentials have expired
	FailureNotSetUp    Failure = "not_set_up"  // leasing.ErrNotSetUp: as while a table is missing
)

// Op is an operation of a provider.
type Op string

// The operations. OpRenewBatch is a batch as a whole, which has no name; its items
// are OpRenew.
const (
	OpAcquire    Op = "acquire"
	OpRenew      Op = "renew"
	OpRelease    Op = "release"
	OpBreak      Op = "break"
	OpInspect    Op = "inspect"
	OpList       Op = "list"
	OpPing       Op = "ping"
	OpHistory    Op = "history"
	OpWait       Op = "wait"
	OpWaiters    Op = "waiters"
	OpRenewBatch Op = "renew_batch"
)

var (
	allOps  = []Op{OpAcquire, OpRenew, OpRelease, OpBreak, OpInspect, OpList, OpPing, OpHistory, OpWait, OpWaiters, OpRenewBatch}
	changes = []Op{OpAcquire, OpRenew, OpRelease, OpBreak}
	named   = []Op{OpAcquire, OpRenew, OpRelease, OpBreak, OpInspect, OpHistory, OpWait, OpWaiters}
	reads   = []Op{OpInspect, OpList, OpHistory, OpWaiters}
)

// trait is what a kind of fault uses and does.
type trait struct {
	ops        []Op
	delay      bool // uses Delay
	needsDelay bool
	jitter     bool
	after      bool
	answer     bool // the caller gets the backend's answer
	hints      bool // of a Wait it concerns the hints, not the registration
	hangs      bool // without a delay, until the caller's context ends
	priority   int  // over other faults of an operation
}

var (
	hinted = slices.Concat(changes, []Op{OpWait})
	traits = map[FaultKind]trait{
		FaultDelay:         {ops: allOps, delay: true, needsDelay: true, jitter: true, after: true, answer: true},
		FaultError:         {ops: allOps, after: true},
		FaultThrottle:      {ops: allOps},
		FaultHang:          {ops: allOps, delay: true, jitter: true, after: true, hangs: true},
		FaultRequestLost:   {ops: allOps, delay: true, jitter: true},
		FaultReplyLost:     {ops: allOps, delay: true, jitter: true},
		FaultDeliveredLate: {ops: hinted, delay: true, needsDelay: true, jitter: true, hints: true},
		FaultAppliedTwice:  {ops: hinted, delay: true, jitter: true, answer: true, hints: true},
		FaultStaleRead:     {ops: reads, delay: true, answer: true},
		FaultBroken:        {ops: named, after: true, answer: true},
		FaultPartitioned:   {ops: allOps, delay: true, jitter: true, hangs: true, priority: 1},
		FaultHintsLost:     {ops: []Op{OpWait}, hints: true},
	}
)
