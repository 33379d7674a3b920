package torture

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
)

// history is what a run has recorded. Times are counted from its start, on the
// machine's monotonic clock.
type history struct {
	TTL time.Duration `json:"ttl"`
	// Backend is what its clock has shown before the run, in microseconds since 1970; 0 if it does not
	// tell. Tokens follow that clock.
	Backend    int64       `json:"backend"`
	Operations []operation `json:"operations"`
	Holds      []hold      `json:"holds"`
	Writes     []write     `json:"writes"` // in the order in which the resource took them
	Waits      []wait      `json:"waits"`
	Sights     []sight     `json:"sights"`
	Words      []word      `json:"words"`
	Notices    []notice    `json:"notices"` // each observer's in the order in which it had them
	Faults     []fault     `json:"faults"`
	Stops      []stop      `json:"stops"`
	Killed     []int       `json:"killed"` // workers whose processes were
	Found      []Violation `json:"found"`  // during the run
	// FaultsEnd is when the faults were switched off, Closed when the last worker
	// had closed its client.
	FaultsEnd time.Duration `json:"faults_end"`
	Closed    time.Duration `json:"closed"`
	// Free are the names at the end: when each could be taken again.
	Free []freeAt `json:"free"`
}

// layer says where an operation was seen.
type layer string

// The layers. The faults lie in between.
const (
	layerClient  layer = "client"  // what a manager asked, and was told
	layerBackend layer = "backend" // what the provider was asked, and answered
)

// result is the outcome of an operation.
type result string

// The results.
const (
	resultDone     result = "done"     // granted, released or broken
	resultHeld     result = "held"     // refused: somebody else's
	resultLost     result = "lost"     // refused: the claim has ended
	resultReleased result = "released" // refused: the claim was given up
	resultRefused  result = "refused"  // for another reason, and not applied
	resultUnknown  result = "unknown"  // may have been applied, or may yet be
)

// operation is one call of a provider's method.
type operation struct {
	Worker int `json:"worker"`
	// Number is its place among those of its worker. Those of different claims that
	// begin in the same instant may come in any order.
	Number int `json:"number"`
	// Begun and Ended number the calls and returns of all workers as the run heard of them:
	// what ended before another began came before it.
	Begun int    `json:"begun"`
	Ended int    `json:"ended"`
	Layer layer  `json:"layer"`
	Verb  string `json:"verb"` // acquire, renew, release, break
	Name  string `json:"name"`
	// Claim is a label for the claim's ID: worker and number, "3.17".
	Claim string `json:"claim"`
	// Wait is the number of the wait that an acquire is of; 0 for none.
	Wait int           `json:"wait"`
	TTL  time.Duration `json:"ttl"`
	// Immediate, Grace and IfToken are a break's.
	Immediate bool          `json:"immediate"`
	Grace     time.Duration `json:"grace"`
	IfToken   int64         `json:"if_token"`
	// By says who breaks a lease and why: of a break, and of a renewal that is told of one. Why is
	// the reason that a renewal is told.
	By  string             `json:"by"`
	Why leasing.LostReason `json:"why"`
	// Vain says of a break that nobody held the name.
	Vain bool          `json:"vain"`
	Call time.Duration `json:"call"`
	// Return is 0 if the call never returned: its process was killed, say.
	Return time.Duration `json:"return"`
	// Deadline is its context's; 0 if it has none.
	Deadline time.Duration `json:"deadline"`
	// Overrun is for how long the call went on after its context had ended.
	Overrun time.Duration `json:"overrun"`
	Result  result        `json:"result"`
	Token   int64         `json:"token"`
	// Stray and StrayClaim are what a grant was for, if not for what was asked.
	Stray      string `json:"stray"`
	StrayClaim string `json:"stray_claim"`
	// Pause is how long a refusal asks to be left alone.
	Pause time.Duration `json:"pause"`
	// Unanswered says of an item of a batch that has an answer that it has none itself.
	Unanswered bool `json:"unanswered"`
	// Holder is the claim that a refusal names; "" if it names none for certain.
	Holder string `json:"holder"`
	// Early says of a release that it was sent while the lease's context lived, or while
	// Do's function was under way.
	Early bool `json:"early"`
}

func (o *operation) granted() bool { return o.Verb == "acquire" && o.Result == resultDone }

// before says that the operation was over when another began, for certain.
func (o *operation) before(next *operation) bool {
	if o.Ended > 0 && next.Begun > 0 {
		return o.Ended < next.Begun
	}
	return o.Return < next.Call
}

// extends says that the operation made a lease of the length that it says.
func (o *operation) extends() bool {
	return o.Result == resultDone && (o.Verb == "acquire" || o.Verb == "renew") && o.Stray == ""
}

// hold is a lease as its holder knew it.
type hold struct {
	Worker int           `json:"worker"`
	Name   string        `json:"name"`
	Claim  string        `json:"claim"`
	Token  int64         `json:"token"`
	From   time.Duration `json:"from"` // the acquire had returned
	// Until is the end of its trust by the checker's own stopwatch: see history.stopwatch.
	Until time.Duration `json:"until"`
	// End is when it was given up or the manager declared it lost; 0 if never.
	End    time.Duration      `json:"end"`
	Ending ending             `json:"ending"`
	Reason leasing.LostReason `json:"reason"`
	// Told is when the holder saw its context end; 0 if it did not, or had
	// given the lease up before.
	Told     time.Duration `json:"told"`
	Renewals int           `json:"renewals"`
	// Renewed and RenewalFailed say that the lease's observer was told of such an event.
	Renewed       bool `json:"renewed"`
	RenewalFailed bool `json:"renewal_failed"`
	// Renews says that the manager was to renew it. If not, there are Most renewals.
	Renews bool `json:"renews"`
	Most   int  `json:"most"`
}

// ending says how a hold ended.
type ending string

// The endings.
const (
	endingGivenUp   ending = "given up"
	endingLost      ending = "lost"
	endingAbandoned ending = "abandoned" // its manager was closed under it, like that of a process that dies
	endingKilled    ending = "killed"    // with its process
)

// ended is when it has ended, or never.
func (t *hold) ended() time.Duration {
	if t.End == 0 {
		return never
	}
	return t.End
}

// trusted is the end of the time for which the holder trusted the lease.
func (t *hold) trusted() time.Duration { return min(t.Until, t.ended()) }

// late is how long after the end of its trust the holder heard of the loss. A
// process that was stopped could not hear before it went on.
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
	// Order is its place among all that the resource took.
	Order  int           `json:"order"`
	Worker int           `json:"worker"`
	Name   string        `json:"name"`
	Claim  string        `json:"claim"`
	Token  int64         `json:"token"`
	Call   time.Duration `json:"call"`
	Return time.Duration `json:"return"`
	// Trusted says that the holder's lease was good before the write and after, and
	// Remaining for how long it said so, at some moment after the call.
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
	// Bound is when it has to return at the latest; 0 if only the end of the run says so.
	// Leaves says that its context ends then, and not its limit.
	Bound  time.Duration `json:"bound"`
	Leaves bool          `json:"leaves"`
	// Got says that it came back with a lease, else Result why not, Holder because of which
	// claim, if that is known, and Own that it is said to be one of the same manager.
	Got    bool   `json:"got"`
	Result result `json:"result"`
	Holder string `json:"holder"`
	Own    bool   `json:"own"`
}

// sight is what a holder sees of its own lease: what the backend shows, and the lease itself.
type sight struct {
	Worker      int           `json:"worker"`
	Name        string        `json:"name"`
	Claim       string        `json:"claim"`
	Token       int64         `json:"token"`
	Call        time.Duration `json:"call"`
	Return      time.Duration `json:"return"`
	Trusted     bool          `json:"trusted"` // the lease was good before and after
	Holder      string        `json:"holder"`
	HolderToken int64         `json:"holder_token"`
	// Other is the owner that the backend shows, if it is another.
	Other string `json:"other"`
	// Listed says that the backend was asked for names, too: how often it lists the lease's among
	// those that are held, and by itself, and which it lists twice or was not asked for.
	Listed  bool   `json:"listed"`
	AsHeld  int    `json:"as_held"`
	AsName  int    `json:"as_name"`
	Strange string `json:"strange"`
	// Metadata is what the holder has set, Shown what the backend shows, Has what the
	// lease says itself.
	Metadata string `json:"metadata"`
	Shown    string `json:"shown"`
	Has      string `json:"has"`
}

// word is what a lease has told its holder.
type word struct {
	Worker int    `json:"worker"`
	Name   string `json:"name"`
	Claim  string `json:"claim"`
	// Verb is renew, set (metadata), release, do (from its function's return on), end (the cause of the lease's
	// context), leave (the caller of a Do does, and is told nothing), close (of the manager at
	// work, and of no claim), or closed (the same of any manager).
	Verb   string        `json:"verb"`
	Call   time.Duration `json:"call"`
	Return time.Duration `json:"return"`
	// Bound is when the context's time ends; 0 if it has none. Cut says that it had ended when
	// the word came.
	Bound  time.Duration `json:"bound"`
	Cut    bool          `json:"cut"`
	Result result        `json:"result"`
	// Unclear says that the error is none of those of package leasing.
	Unclear bool `json:"unclear"`
}

// notice is an event that an observer was told.
type notice struct {
	Worker int                `json:"worker"`
	Name   string             `json:"name"`
	Claim  string             `json:"claim"`
	Kind   leasing.EventKind  `json:"kind"`
	Reason leasing.LostReason `json:"reason"`
	By     string             `json:"by"` // its breaker, and the reason
	At     time.Duration      `json:"at"`
	Own    bool               `json:"own"`   // told to the lease's observer, and not to its manager's
	Times  int                `json:"times"` // it stands for so many
}

// fault is one fault that was injected, or one that befell a process or server.
type fault struct {
	At     time.Duration `json:"at"`
	Until  time.Duration `json:"until"`  // 0 for a moment
	Worker int           `json:"worker"` // -1 if it concerns all
	Name   string        `json:"name"`   // "" if it concerns all
	Verb   string        `json:"verb"`
	Kind   string        `json:"kind"`
	Rule   string        `json:"rule"`
}

// stop is a time in which a worker's process stood still.
type stop struct {
	Worker int           `json:"worker"`
	From   time.Duration `json:"from"`
	To     time.Duration `json:"to"`
}

// closing is when a worker closed a manager at work in some time; nil if it did not.
func (h *history) closing(worker int, from, to time.Duration) *word {
	i := slices.IndexFunc(h.Words, func(w word) bool { return w.Verb == "close" && w.Worker == worker && w.Call >= from && w.Call <= to })
	if i < 0 {
		return nil
	}
	return &h.Words[i]
}

// stopped says whether a worker's process stood still for some of a time.
func (h *history) stopped(worker int, from, to time.Duration) bool {
	return slices.ContainsFunc(h.Stops, func(s stop) bool { return s.Worker == worker && s.From < to && s.To > from })
}

// freeAt is when a name could be taken again after the end.
type freeAt struct {
	Name string        `json:"name"`
	At   time.Duration `json:"at"` // 0 if not within the bound
	By   time.Duration `json:"by"` // the bound
}

// label calls each claim by its worker and by how many that had acquired before it.
// Managers choose IDs at random.
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

// relabel changes each text that has a label: nothing else is equal to an ID.
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

// place is where something comes in a history.
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

// sort puts the history in an order that does not depend on which goroutine
// came to write first.
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

// names returns the names that occur, sorted.
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

// end is the time of the last thing that happened.
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
