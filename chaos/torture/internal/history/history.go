package history

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// History is the record of a run. Times are counted from its start, on the
// machine's monotonic clock.
type History struct {
	TTL time.Duration `json:"ttl"`
	// Backend is the time on the backend's clock before the run, in microseconds since 1970; 0 if the
	// backend does not report its time. Tokens follow that clock.
	Backend    int64         `json:"backend"`
	Operations []Operation   `json:"operations"`
	Holds      []Hold        `json:"holds"`
	Writes     []Write       `json:"writes"` // in the order in which the resource handled them
	Waits      []Wait        `json:"waits"`
	Readings   []Reading     `json:"readings"`
	Answers    []Answer      `json:"answers"`
	Observed   []Observation `json:"observed"` // the events of each observer are in the order of its calls
	Faults     []Fault       `json:"faults"`
	Stops      []Stop        `json:"stops"`
	Killed     []int         `json:"killed"` // workers whose processes were killed
	Found      []Violation   `json:"found"`  // during the run
	// FaultsEnd is the time at which the faults were switched off, and Closed the time at which
	// the last worker had closed its client.
	FaultsEnd time.Duration `json:"faults_end"`
	Closed    time.Duration `json:"closed"`
	// Free lists the time at which each name could be acquired after the end of the run.
	Free []FreeAt `json:"free"`
}

// Layer is the place at which an operation was recorded.
type Layer string

// The layers. The faults are injected between the two.
const (
	LayerClient  Layer = "client"  // a manager's requests and their replies
	LayerBackend Layer = "backend" // the requests to the provider and its replies
)

// Result is the outcome of an operation.
type Result string

// The results.
const (
	ResultDone     Result = "done"     // granted, released or broken
	ResultHeld     Result = "held"     // refused: another claim holds the name
	ResultLost     Result = "lost"     // refused: the claim has ended
	ResultReleased Result = "released" // refused: the claim was given up
	ResultRefused  Result = "refused"  // refused for another reason, and not applied
	ResultUnknown  Result = "unknown"  // may have been applied, or may be applied later
)

// ResultOf classifies errors by the provider's contract.
func ResultOf(err error) Result {
	switch {
	case err == nil:
		return ResultDone
	case errors.Is(err, leasing.ErrHeld):
		return ResultHeld
	case errors.Is(err, leasing.ErrLost):
		return ResultLost
	case errors.Is(err, leasing.ErrReleased):
		return ResultReleased
	case abstractions.NotApplied(err):
		return ResultRefused
	}
	return ResultUnknown
}

// Operation is one call of a provider's method.
type Operation struct {
	Worker int `json:"worker"`
	// Number is the operation's place among those of its worker. Operations of different claims
	// that begin in the same instant may come in any order.
	Number int `json:"number"`
	// Begun and Ended number the calls and returns of all workers in the order in which the run
	// received these events. An operation precedes each operation that began after its end.
	Begun int    `json:"begun"`
	Ended int    `json:"ended"`
	Layer Layer  `json:"layer"`
	Verb  string `json:"verb"` // acquire, renew, release, break
	Name  string `json:"name"`
	// Claim is a label for the claim's ID: worker and number, "3.17".
	Claim string `json:"claim"`
	// Wait is the number of the wait to which an acquire belongs; 0 without a wait.
	Wait int           `json:"wait"`
	TTL  time.Duration `json:"ttl"`
	// Immediate, Grace and IfToken are the fields of a break.
	Immediate bool          `json:"immediate"`
	Grace     time.Duration `json:"grace"`
	IfToken   int64         `json:"if_token"`
	// By names the actor and the reason of a break; a renewal has them from the reply that reports
	// the break. Why is the reason of the loss in the reply to a renewal.
	By  string             `json:"by"`
	Why leasing.LostReason `json:"why"`
	// NoHolder reports that a break found no holder of the name.
	NoHolder bool          `json:"no_holder"`
	Call     time.Duration `json:"call"`
	// Return is 0 if the call never returned, for example because its process was killed.
	Return time.Duration `json:"return"`
	// Deadline is the deadline of the call's context; 0 without a deadline.
	Deadline time.Duration `json:"deadline"`
	// Overrun is the time from the end of the call's context to its return.
	Overrun time.Duration `json:"overrun"`
	Result  Result        `json:"result"`
	Token   int64         `json:"token"`
	// WrongName and WrongClaim are the name and claim of a grant, if they differ from those of the request.
	WrongName  string `json:"wrong_name"`
	WrongClaim string `json:"wrong_claim"`
	// Pause is the time for which a refusal asks the client to wait before the next request.
	Pause time.Duration `json:"pause"`
	// Unanswered reports that an item of an answered batch has no answer of its own.
	Unanswered bool `json:"unanswered"`
	// Holder is the claim that a refusal names; "" if no holder is certain.
	Holder string `json:"holder"`
	// Early reports that a release was sent before the lease's context had ended, or while
	// Do's function was running.
	Early bool `json:"early"`
}

// Granted reports whether the operation is an acquire that was granted.
func (o *Operation) Granted() bool { return o.Verb == "acquire" && o.Result == ResultDone }

// Before reports whether the operation had certainly returned when another began.
func (o *Operation) Before(next *Operation) bool {
	if o.Ended > 0 && next.Begun > 0 {
		return o.Ended < next.Begun
	}
	return o.Return < next.Call
}

// Extends reports whether the operation granted or renewed a lease for its TTL.
func (o *Operation) Extends() bool {
	return o.Result == ResultDone && (o.Verb == "acquire" || o.Verb == "renew") && o.WrongName == ""
}

func (o Operation) String() string {
	text := fmt.Sprintf("%s of claim %s by worker %d (%s to %s): %s", o.Verb, o.Claim, o.Worker, Seconds(o.Call), Seconds(o.Return), o.Result)
	if o.Token > 0 {
		text += fmt.Sprintf(", token %d", o.Token)
	}
	if o.Holder != "" {
		text += " by claim " + o.Holder
	}
	return text
}

// Hold is a lease as seen by its holder.
type Hold struct {
	Worker int           `json:"worker"`
	Name   string        `json:"name"`
	Claim  string        `json:"claim"`
	Token  int64         `json:"token"`
	From   time.Duration `json:"from"` // when the acquire had returned
	// Until is the end of the hold's trust by the checker's own stopwatch: see check.Stopwatch.
	Until time.Duration `json:"until"`
	// End is the time at which the lease was given up, or the manager declared it lost; 0 if never.
	End    time.Duration      `json:"end"`
	Ending Ending             `json:"ending"`
	Reason leasing.LostReason `json:"reason"`
	// Noticed is the time at which the holder saw the lease's context end; 0 if it did not, or had
	// given the lease up before.
	Noticed  time.Duration `json:"noticed"`
	Renewals int           `json:"renewals"`
	// Renewed and RenewalFailed report that the lease's observer got such an event.
	Renewed       bool `json:"renewed"`
	RenewalFailed bool `json:"renewal_failed"`
	// Renews reports that the manager was to renew the lease for as long as it was held. Otherwise
	// Most is the maximum number of renewals.
	Renews bool `json:"renews"`
	Most   int  `json:"most"`
}

// Ending is the way in which a hold ended.
type Ending string

// The endings.
const (
	EndingGivenUp   Ending = "given up"
	EndingLost      Ending = "lost"
	EndingAbandoned Ending = "abandoned" // its manager was closed during the hold, to simulate a process that dies
	EndingKilled    Ending = "killed"    // with its process
)

// Never is the return of an operation that may take effect at any later time.
const Never = math.MaxInt64

// Ended returns the end of the hold, or Never.
func (t *Hold) Ended() time.Duration {
	if t.End == 0 {
		return Never
	}
	return t.End
}

// Trusted returns the end of the time for which the holder trusted the lease.
func (t *Hold) Trusted() time.Duration { return min(t.Until, t.Ended()) }

// EndAt ends a hold, unless it has ended before.
func (t *Hold) EndAt(at time.Duration) {
	if t.End == 0 || at < t.End {
		t.End = at
	}
}

// Write is one attempt to write to the resource that a name protects.
type Write struct {
	// Order is the write's place among all writes that the resource handled.
	Order  int           `json:"order"`
	Worker int           `json:"worker"`
	Name   string        `json:"name"`
	Claim  string        `json:"claim"`
	Token  int64         `json:"token"`
	Call   time.Duration `json:"call"`
	Return time.Duration `json:"return"`
	// Trusted reports that the holder's lease was valid before and after the write. Remaining is
	// the trust that the lease reported, at some moment after the call.
	Trusted   bool          `json:"trusted"`
	Remaining time.Duration `json:"remaining"`
	Accepted  bool          `json:"accepted"`
}

// Wait is one Acquire or TryAcquire of a manager.
type Wait struct {
	Worker int           `json:"worker"`
	Number int           `json:"number"`
	Name   string        `json:"name"`
	Try    bool          `json:"try"`
	From   time.Duration `json:"from"`
	To     time.Duration `json:"to"` // 0 if it has not returned
	// Bound is the latest time at which the call must return; 0 if only the end of the run bounds the
	// wait. Leaves reports that Bound is the end of the call's context, and not of its wait limit.
	Bound  time.Duration `json:"bound"`
	Leaves bool          `json:"leaves"`
	// Got reports that the call returned a lease. Otherwise Result is the reason, and Holder is the
	// claim that held the name, if known. Own reports that the error names the worker's own manager
	// as the holder.
	Got    bool   `json:"got"`
	Result Result `json:"result"`
	Holder string `json:"holder"`
	Own    bool   `json:"own"`
}

// Reading is a holder's view of its lease: the backend's record and the lease's own fields.
type Reading struct {
	Worker      int           `json:"worker"`
	Name        string        `json:"name"`
	Claim       string        `json:"claim"`
	Token       int64         `json:"token"`
	Call        time.Duration `json:"call"`
	Return      time.Duration `json:"return"`
	Trusted     bool          `json:"trusted"` // the lease was valid before and after
	Holder      string        `json:"holder"`
	HolderToken int64         `json:"holder_token"`
	// Other is the owner that the backend shows, if it is not the holder.
	Other string `json:"other"`
	// Listed reports that the holder also listed the backend's names. AsHeld counts the lease's name in the list
	// of held names, AsName in the list of that name alone. Strange is a name that was listed twice or was not requested.
	Listed  bool   `json:"listed"`
	AsHeld  int    `json:"as_held"`
	AsName  int    `json:"as_name"`
	Strange string `json:"strange"`
	// Metadata is the holder's latest setting, Shown the metadata in the backend's record, and Has the
	// metadata of the lease itself.
	Metadata string `json:"metadata"`
	Shown    string `json:"shown"`
	Has      string `json:"has"`
}

// Answer is an answer from a lease to its holder.
type Answer struct {
	Worker int    `json:"worker"`
	Name   string `json:"name"`
	Claim  string `json:"claim"`
	// Verb is renew, set (metadata), release, do (from its function's return on), end (the cause of the lease's
	// context), leave (the caller of a Do cancels its context; there is no answer), close (the Close of a manager with a
	// lease in use; Claim is empty), or closed (the Close of any manager).
	Verb   string        `json:"verb"`
	Call   time.Duration `json:"call"`
	Return time.Duration `json:"return"`
	// Bound is the deadline of the context; 0 without a deadline. Cut reports that the context had ended
	// before the answer came.
	Bound  time.Duration `json:"bound"`
	Cut    bool          `json:"cut"`
	Result Result        `json:"result"`
	// Unclear reports that the error matches none of the errors of package leasing.
	Unclear bool `json:"unclear"`
}

// Observation is an event that an observer got.
type Observation struct {
	Worker int                `json:"worker"`
	Name   string             `json:"name"`
	Claim  string             `json:"claim"`
	Kind   leasing.EventKind  `json:"kind"`
	Reason leasing.LostReason `json:"reason"`
	By     string             `json:"by"` // the actor and the reason of a break
	At     time.Duration      `json:"at"`
	Own    bool               `json:"own"`   // from the lease's observer, not from its manager's
	Times  int                `json:"times"` // the number of events that were merged
}

// Fault is an injected fault, or a fault of a process or server.
type Fault struct {
	At     time.Duration `json:"at"`
	Until  time.Duration `json:"until"`  // 0 for a fault without a duration
	Worker int           `json:"worker"` // -1 if it concerns all workers
	Name   string        `json:"name"`   // "" if it concerns all names
	Verb   string        `json:"verb"`
	Kind   string        `json:"kind"`
	Rule   string        `json:"rule"`
}

// Injected reports whether the plan caused the fault. Otherwise it is a fault of a process or
// server.
func (f Fault) Injected() bool { return f.Worker >= 0 }

// Stop is a period in which a worker's process was stopped.
type Stop struct {
	Worker int           `json:"worker"`
	From   time.Duration `json:"from"`
	To     time.Duration `json:"to"`
}

// FreeAt is the time at which a name could be acquired after the end of the run.
type FreeAt struct {
	Name string        `json:"name"`
	At   time.Duration `json:"at"` // 0 if not within the bound
	By   time.Duration `json:"by"` // the bound
}

// Late returns the time from the end of trust until the holder was notified of the loss. A
// stopped process could not be notified before it was resumed.
func (h *History) Late(t Hold) (time.Duration, bool) {
	if t.Ending != EndingLost || t.Noticed == 0 {
		return 0, false
	}
	from := t.Until
	for _, s := range h.Stops {
		if s.Worker == t.Worker && s.From < t.Noticed && s.To > from {
			from = s.To
		}
	}
	return max(0, t.Noticed-from), true
}

// Closing returns the Close, within a period, of a worker's manager that had a lease in use; nil without such a
// Close.
func (h *History) Closing(worker int, from, to time.Duration) *Answer {
	i := slices.IndexFunc(h.Answers, func(w Answer) bool { return w.Verb == "close" && w.Worker == worker && w.Call >= from && w.Call <= to })
	if i < 0 {
		return nil
	}
	return &h.Answers[i]
}

// Stopped reports whether a worker's process was stopped for a part of a period.
func (h *History) Stopped(worker int, from, to time.Duration) bool {
	return slices.ContainsFunc(h.Stops, func(s Stop) bool { return s.Worker == worker && s.From < to && s.To > from })
}
