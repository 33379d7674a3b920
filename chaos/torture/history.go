package torture

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
)

// history is the record of a run. Times are counted from its start, on the
// machine's monotonic clock.
type history struct {
	TTL time.Duration `json:"ttl"`
	// Backend is the time of the backend's clock before the run, in microseconds since 1970; 0 if the
	// backend does not report its time. Tokens follow that clock.
	Backend    int64       `json:"backend"`
	Operations []operation `json:"operations"`
	Holds      []hold      `json:"holds"`
	Writes     []write     `json:"writes"` // in the order in which the resource handled them
	Waits      []wait      `json:"waits"`
	Sights     []sight     `json:"sights"`
	Words      []word      `json:"words"`
	Notices    []notice    `json:"notices"` // of each observer in the order of its calls
	Faults     []fault     `json:"faults"`
	Stops      []stop      `json:"stops"`
	Killed     []int       `json:"killed"` // workers whose processes were killed
	Found      []Violation `json:"found"`  // during the run
	// FaultsEnd is the time at which the faults were switched off, and Closed the time at which
	// the last worker had closed its client.
	FaultsEnd time.Duration `json:"faults_end"`
	Closed    time.Duration `json:"closed"`
	// Free lists the time at which each name could be acquired after the end of the run.
	Free []freeAt `json:"free"`
}

// layer is the place at which an operation was recorded.
type layer string

// The layers. The faults are injected between the two.
const (
	layerClient  layer = "client"  // a manager's requests and their replies
	layerBackend layer = "backend" // the requests to the provider and its replies
)

// result is the outcome of an operation.
type result string

// The results.
const (
	resultDone     result = "done"     // granted, released or broken
	resultHeld     result = "held"     // refused: another claim holds the name
	resultLost     result = "lost"     // refused: the claim has ended
	resultReleased result = "released" // refused: the claim was given up
	resultRefused  result = "refused"  // for another reason, and not applied
	resultUnknown  result = "unknown"  // may have been applied, or may be applied later
)

// operation is one call of a provider's method.
type operation struct {
	Worker int `json:"worker"`
	// Number is its place among the operations of its worker. Operations of different claims that
	// begin in the same instant may come in any order.
	Number int `json:"number"`
	// Begun and Ended number the calls and returns of all workers in the order in which the run
	// learned of these events. An operation precedes each operation that began after its end.
	Begun int    `json:"begun"`
	Ended int    `json:"ended"`
	Layer layer  `json:"layer"`
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
	// Vain reports that the name of a break had no holder.
	Vain bool          `json:"vain"`
	Call time.Duration `json:"call"`
	// Return is 0 if the call never returned: its process was killed, say.
	Return time.Duration `json:"return"`
	// Deadline is the deadline of its context; 0 without a deadline.
	Deadline time.Duration `json:"deadline"`
	// Overrun is the time from the end of the call's context to its return.
	Overrun time.Duration `json:"overrun"`
	Result  result        `json:"result"`
	Token   int64         `json:"token"`
	// Stray and StrayClaim are the name and claim of a grant, if they differ from those of the request.
	Stray      string `json:"stray"`
	StrayClaim string `json:"stray_claim"`
	// Pause is the pause before the next request that a refusal asks for.
	Pause time.Duration `json:"pause"`
	// Unanswered reports that an item of an answered batch has no answer of its own.
	Unanswered bool `json:"unanswered"`
	// Holder is the claim that a refusal names; "" if it names none for certain.
	Holder string `json:"holder"`
	// Early reports that a release was sent before the lease's context had ended, or while
	// Do's function was running.
	Early bool `json:"early"`
}

func (o *operation) granted() bool { return o.Verb == "acquire" && o.Result == resultDone }

// before reports whether the operation had certainly returned when another began.
func (o *operation) before(next *operation) bool {
	if o.Ended > 0 && next.Begun > 0 {
		return o.Ended < next.Begun
	}
	return o.Return < next.Call
}

// extends reports whether the operation granted or renewed a lease for its TTL.
func (o *operation) extends() bool {
	return o.Result == resultDone && (o.Verb == "acquire" || o.Verb == "renew") && o.Stray == ""
}

// hold is a lease as seen by its holder.
type hold struct {
	Worker int           `json:"worker"`
	Name   string        `json:"name"`
	Claim  string        `json:"claim"`
	Token  int64         `json:"token"`
	From   time.Duration `json:"from"` // the acquire had returned
	// Until is the end of its trust by the checker's own stopwatch: see history.stopwatch.
	Until time.Duration `json:"until"`
	// End is the time at which it was given up or the manager declared it lost; 0 if never.
	End    time.Duration      `json:"end"`
	Ending ending             `json:"ending"`
	Reason leasing.LostReason `json:"reason"`
	// Told is the time at which the holder saw its context end; 0 if the holder did not
	// see the end, or had given the lease up before.
	Told     time.Duration `json:"told"`
	Renewals int           `json:"renewals"`
	// Renewed and RenewalFailed report that the lease's observer got such an event.
	Renewed       bool `json:"renewed"`
	RenewalFailed bool `json:"renewal_failed"`
	// Renews reports that the manager was to renew the lease. Otherwise Most limits its renewals.
	Renews bool `json:"renews"`
	Most   int  `json:"most"`
}

// ending is the way in which a hold ended.
type ending string

// The endings.
const (
	endingGivenUp   ending = "given up"
	endingLost      ending = "lost"
	endingAbandoned ending = "abandoned" // its manager was closed during the hold, like that of a process that dies
	endingKilled    ending = "killed"    // with its process
)

// ended returns the end of the hold, or never.
func (t *hold) ended() time.Duration {
	if t.End == 0 {
		return never
	}
	return t.End
}

// trusted returns the end of the time for which the holder trusted the lease.
func (t *hold) trusted() time.Duration { return min(t.Until, t.ended()) }

// late returns the time from the end of trust until the holder learned of the loss. A
// stopped process could not learn of the loss before it was resumed.
func (h *history) late(t hold) (time.Duration, bool) {
	if t.Ending != endingLost || t.Told == 0 {
		return 0, false
	}
	from := t.Until
	for _, s := range h.Stops {
		if s.Worker == t.Worker && s.From < t.Told && s.To > from {
			from = s.To
		}
	}
	return max(0, t.Told-from), true
}

// write is one attempt to write to the resource that a name protects.
type write struct {
	// Order is its place among all writes that the resource handled.
	Order  int           `json:"order"`
	Worker int           `json:"worker"`
	Name   string        `json:"name"`
	Claim  string        `json:"claim"`
	Token  int64         `json:"token"`
	Call   time.Duration `json:"call"`
	Return time.Duration `json:"return"`
	// Trusted reports that the holder's lease was valid before the write and after. Remaining
	// is the trust that the lease reported, at some moment after the call.
	Trusted   bool          `json:"trusted"`
	Remaining time.Duration `json:"remaining"`
	Accepted  bool          `json:"accepted"`
}

// wait is one Acquire or TryAcquire of a manager.
type wait struct {
	Worker int           `json:"worker"`
	Number int           `json:"number"`
	Name   string        `json:"name"`
	Try    bool          `json:"try"`
	From   time.Duration `json:"from"`
	To     time.Duration `json:"to"` // 0 if it has not returned
	// Bound is the latest time at which it must return; 0 if only the end of the run bounds the wait.
	// Leaves reports that Bound is the end of its context, and not of its wait limit.
	Bound  time.Duration `json:"bound"`
	Leaves bool          `json:"leaves"`
	// Got reports that it returned a lease. Otherwise Result is the reason, Holder the claim that
	// had the name, if that is known, and Own reports that the error names the same manager as its holder.
	Got    bool   `json:"got"`
	Result result `json:"result"`
	Holder string `json:"holder"`
	Own    bool   `json:"own"`
}

// sight is a holder's view of its own lease: the backend's record and the lease's own fields.
type sight struct {
	Worker      int           `json:"worker"`
	Name        string        `json:"name"`
	Claim       string        `json:"claim"`
	Token       int64         `json:"token"`
	Call        time.Duration `json:"call"`
	Return      time.Duration `json:"return"`
	Trusted     bool          `json:"trusted"` // the lease was valid before and after
	Holder      string        `json:"holder"`
	HolderToken int64         `json:"holder_token"`
	// Other is the owner that the backend shows, if it is a different one than the holder.
	Other string `json:"other"`
	// Listed reports that the holder also listed the backend's names. AsHeld counts the lease's name in the list
	// of held names, AsName in the list of that name alone. Strange is a name that was listed twice or was not asked for.
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

// word is an answer of a lease to its holder.
type word struct {
	Worker int    `json:"worker"`
	Name   string `json:"name"`
	Claim  string `json:"claim"`
	// Verb is renew, set (metadata), release, do (from its function's return on), end (the cause of the lease's
	// context), leave (the caller of a Do cancels its context, without an answer), close (of a manager with a lease in
	// use, and of no claim), or closed (the Close of any manager).
	Verb   string        `json:"verb"`
	Call   time.Duration `json:"call"`
	Return time.Duration `json:"return"`
	// Bound is the deadline of the context; 0 without a deadline. Cut reports that the context had ended
	// before the answer came.
	Bound  time.Duration `json:"bound"`
	Cut    bool          `json:"cut"`
	Result result        `json:"result"`
	// Unclear reports that the error is none of package leasing's errors.
	Unclear bool `json:"unclear"`
}

// notice is an event that an observer got.
type notice struct {
	Worker int                `json:"worker"`
	Name   string             `json:"name"`
	Claim  string             `json:"claim"`
	Kind   leasing.EventKind  `json:"kind"`
	Reason leasing.LostReason `json:"reason"`
	By     string             `json:"by"` // its breaker, and the reason
	At     time.Duration      `json:"at"`
	Own    bool               `json:"own"`   // sent to the lease's observer, and not to its manager's
	Times  int                `json:"times"` // the number of events that were merged
}

// fault is an injected fault, or a fault of a process or server.
type fault struct {
	At     time.Duration `json:"at"`
	Until  time.Duration `json:"until"`  // 0 for a moment
	Worker int           `json:"worker"` // -1 if it concerns all
	Name   string        `json:"name"`   // "" if it concerns all
	Verb   string        `json:"verb"`
	Kind   string        `json:"kind"`
	Rule   string        `json:"rule"`
}

// stop is a period in which a worker's process was stopped.
type stop struct {
	Worker int           `json:"worker"`
	From   time.Duration `json:"from"`
	To     time.Duration `json:"to"`
}

// closing returns the Close of a worker's manager with a lease in use, in a period; nil without such a Close.
func (h *history) closing(worker int, from, to time.Duration) *word {
	i := slices.IndexFunc(h.Words, func(w word) bool { return w.Verb == "close" && w.Worker == worker && w.Call >= from && w.Call <= to })
	if i < 0 {
		return nil
	}
	return &h.Words[i]
}

// stopped reports whether a worker's process was stopped for a part of a period.
func (h *history) stopped(worker int, from, to time.Duration) bool {
	return slices.ContainsFunc(h.Stops, func(s stop) bool { return s.Worker == worker && s.From < to && s.To > from })
}

// freeAt is the time at which a name could be acquired after the end of the run.
type freeAt struct {
	Name string        `json:"name"`
	At   time.Duration `json:"at"` // 0 if not within the bound
	By   time.Duration `json:"by"` // the bound
}

// label replaces each claim's ID by the number of its worker and its number among that worker's
// claims. Managers choose IDs at random.
func (h *history) label() {
	inOrder(h.Operations, func(o *operation) place { return place{at: o.Call, worker: o.Worker, number: o.Number} })
	labels, claims := map[string]string{}, map[int]int{}
	for _, o := range h.Operations {
		if o.Claim != "" && labels[o.Claim] == "" {
			claims[o.Worker]++
			labels[o.Claim] = fmt.Sprintf("%d.%d", o.Worker, claims[o.Worker])
		}
	}
	relabel(reflect.ValueOf(h).Elem(), labels)
}

// relabel replaces each string that has a label. Only IDs are equal to an ID.
func relabel(v reflect.Value, labels map[string]string) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			relabel(field, labels)
		}
	case reflect.Slice:
		for i := range v.Len() {
			relabel(v.Index(i), labels)
		}
	case reflect.String:
		if label, ok := labels[v.String()]; ok {
			v.SetString(label)
		}
	}
}

// place is the sort key of an item of a history.
type place struct {
	at          time.Duration
	worker      int
	name, claim string
	number      int
}

// inOrder sorts some items by their places.
func inOrder[T any](all []T, of func(*T) place) {
	slices.SortStableFunc(all, func(one, other T) int {
		a, b := of(&one), of(&other)
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.worker, b.worker), cmp.Compare(a.name, b.name),
			cmp.Compare(a.claim, b.claim), cmp.Compare(a.number, b.number))
	})
}

// sort sorts the history, so that its order does not depend on the order in which
// goroutines wrote their items.
func (h *history) sort() {
	inOrder(h.Operations, func(o *operation) place { return place{o.Call, o.Worker, o.Name, o.Claim, o.Number} })
	inOrder(h.Holds, func(t *hold) place { return place{t.From, t.Worker, "", t.Claim, 0} })
	inOrder(h.Waits, func(w *wait) place { return place{w.From, w.Worker, w.Name, "", w.Number} })
	inOrder(h.Sights, func(s *sight) place { return place{s.Call, s.Worker, "", s.Claim, 0} })
	inOrder(h.Words, func(w *word) place { return place{w.Call, w.Worker, w.Verb, w.Claim, 0} })
	inOrder(h.Notices, func(e *notice) place {
		p := place{worker: e.Worker, claim: e.Claim}
		if e.Own {
			p.number = 1
		}
		return p
	})
	inOrder(h.Writes, func(w *write) place { return place{number: w.Order} })
	inOrder(h.Faults, func(f *fault) place { return place{f.At, f.Worker, f.Verb + f.Name, f.Kind + f.Rule, 0} })
}

// names returns the names in the history, sorted.
func (h *history) names() (all []string) {
	for _, f := range h.Free {
		all = append(all, f.Name)
	}
	for _, t := range h.Holds {
		all = append(all, t.Name)
	}
	for _, o := range h.Operations {
		all = append(all, o.Name)
	}
	for _, w := range h.Writes {
		all = append(all, w.Name)
	}
	for _, w := range h.Waits {
		all = append(all, w.Name)
	}
	for _, s := range h.Sights {
		all = append(all, s.Name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// end returns the time of the last event.
func (h *history) end() time.Duration {
	end := max(h.FaultsEnd, h.Closed)
	for _, o := range h.Operations {
		end = max(end, o.Call, o.Return)
	}
	for _, t := range h.Holds {
		end = max(end, t.From, t.End, t.Told)
	}
	for _, f := range h.Free {
		end = max(end, f.At)
	}
	return end
}
