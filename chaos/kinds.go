package chaos

import "slices"

// FaultKind is a kind of fault.
type FaultKind string

// The kinds. An unknown outcome is an error that matches
// leasing.ErrUnavailable and leaves open whether the request was applied. All
// injected errors match ErrInjected.
const (
	// FaultDelay waits for Delay and Jitter, before the request is sent or,
	// with After, before the reply is returned.
	FaultDelay FaultKind = "delay"
	// FaultError returns the error that Fault.Failure selects, and nothing is sent. With After the
	// operation takes effect and then fails as FailureUnavailable.
	FaultError FaultKind = "error"
	// FaultThrottle refuses the request with a *leasing.ThrottledError that has the fault's RetryAfter.
	FaultThrottle FaultKind = "throttle"
	// FaultHang sends nothing and answers only when the caller's context ends, or
	// after Delay and Jitter if set. With After the request is sent but the reply
	// does not come. The outcome is unknown.
	FaultHang FaultKind = "hang"
	// FaultRequestLost sends nothing. After Delay and Jitter the caller gets an unknown
	// outcome.
	FaultRequestLost FaultKind = "request_lost"
	// FaultReplyLost applies the operation. The caller gets an unknown outcome, after Delay and
	// Jitter.
	FaultReplyLost FaultKind = "reply_lost"
	// FaultDeliveredLate returns an unknown outcome at once, and applies the operation after
	// Delay (more than 0) and Jitter. Wake-ups of a Wait are delayed by the same time.
	FaultDeliveredLate FaultKind = "delivered_late"
	// FaultAppliedTwice applies the operation, and applies it again after Delay and
	// Jitter, like a client that retries by itself. The caller gets the second
	// answer, or an unknown outcome if that answer would promise that nothing was
	// applied. Wake-ups of a Wait arrive twice.
	FaultAppliedTwice FaultKind = "applied_twice"
	// FaultStaleRead returns an earlier answer to the same read, at least Delay old, like a
	// replica that lags. (The request is still sent to the backend, to record answers for later
	// reads.) Nothing happens if there is no such answer.
	FaultStaleRead FaultKind = "stale_read"
	// FaultBroken breaks the lease of the operation's name, whichever claim holds it: before the
	// operation, or after it if After is set. See Fault.RunOut.
	FaultBroken FaultKind = "broken"
	// FaultPartitioned cuts the caller off. Nothing is sent, and the call returns an
	// unknown outcome when its context ends, or after Delay and Jitter if set. If the
	// cut begins while an operation is in flight, its reply is lost. Wake-ups of a
	// Wait are lost while the cut lasts.
	FaultPartitioned FaultKind = "partitioned"
	// FaultWakeupsLost drops all wake-ups of a Wait.
	FaultWakeupsLost FaultKind = "wakeups_lost"
	// FaultCustom runs Fault.Custom, code of your own. See CustomFault.
	FaultCustom FaultKind = "custom"
)

// Failure is the error of a FaultError.
type Failure string

// The failures. Only FailureUnavailable may follow an effect; the others
// promise that nothing was applied.
const (
	FailureUnavailable Failure = "unavailable" // leasing.ErrUnavailable: the outcome is unknown
	FailureDenied      Failure = "denied"      // leasing.ErrDenied, as if credentials had expired
	FailureNotSetUp    Failure = "not_set_up"  // leasing.ErrNotSetUp, as if a table were missing
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
	allOps    = []Op{OpAcquire, OpRenew, OpRelease, OpBreak, OpInspect, OpList, OpPing, OpHistory, OpWait, OpWaiters, OpRenewBatch}
	changeOps = []Op{OpAcquire, OpRenew, OpRelease, OpBreak}
	namedOps  = []Op{OpAcquire, OpRenew, OpRelease, OpBreak, OpInspect, OpHistory, OpWait, OpWaiters}
	readOps   = []Op{OpInspect, OpList, OpHistory, OpWaiters}
)

// trait describes the fields and effects of a kind of fault.
type trait struct {
	does       string // describes the effect on an operation
	ops        []Op
	delay      bool // uses Delay
	needsDelay bool
	jitter     bool
	after      bool
	answer     bool // the caller gets the backend's answer
	wakeups    bool // on a Wait the fault affects the wake-ups, not the registration
	hangs      bool // without a delay, the fault lasts until the caller's context ends
	priority   int  // faults with a higher priority come first
}

var (
	changesAndWait = slices.Concat(changeOps, []Op{OpWait})
	traits         = map[FaultKind]trait{
		FaultDelay:         {does: "waits", ops: allOps, delay: true, needsDelay: true, jitter: true, after: true, answer: true},
		FaultError:         {does: "fails", ops: allOps, after: true},
		FaultThrottle:      {does: "is throttled", ops: allOps},
		FaultHang:          {does: "hangs", ops: allOps, delay: true, jitter: true, after: true, hangs: true},
		FaultRequestLost:   {does: "loses its request", ops: allOps, delay: true, jitter: true},
		FaultReplyLost:     {does: "loses its reply", ops: allOps, delay: true, jitter: true},
		FaultDeliveredLate: {does: "is delivered late", ops: changesAndWait, delay: true, needsDelay: true, jitter: true, wakeups: true},
		FaultAppliedTwice:  {does: "is applied twice", ops: changesAndWait, delay: true, jitter: true, answer: true, wakeups: true},
		FaultStaleRead:     {does: "gets an old answer", ops: readOps, delay: true, answer: true},
		FaultBroken:        {does: "has its lease broken", ops: namedOps, after: true, answer: true},
		FaultPartitioned:   {does: "is cut off", ops: allOps, delay: true, jitter: true, hangs: true, priority: 1},
		FaultWakeupsLost:   {does: "loses its wake-ups", ops: []Op{OpWait}, wakeups: true},
		FaultCustom:        {does: "meets", ops: allOps, answer: true},
	}
)
