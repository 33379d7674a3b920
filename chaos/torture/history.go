package torture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
)

// History is what a run has recorded. Times are counted from its start, on the
// machine's monotonic clock.
type History struct {
	TTL        time.Duration `json:"ttl"`
	Operations []Operation   `json:"operations"`
	Holds      []Hold        `json:"holds"`
	Writes     []Write       `json:"writes"` // in the order in which the resource took them
	Faults     []Fault       `json:"faults"`
	Stops      []Stop        `json:"stops,omitempty"`
	Killed     []int         `json:"killed,omitempty"` // workers whose processes were
	// FaultsEnd is when the faults were switched off, Closed when the last worker
	// had closed its client.
	FaultsEnd time.Duration `json:"faults_end"`
	Closed    time.Duration `json:"closed"`
	// Free are the names at the end: when each could be taken again.
	Free []FreeAt `json:"free"`
}

// Layer says where an operation was seen.
type Layer string

// The layers. The faults lie in between.
const (
	LayerClient  Layer = "client"  // what a manager asked, and was told
	LayerBackend Layer = "backend" // what the provider was asked, and answered
)

// Result is the outcome of an operation.
type Result string

// The results.
const (
	ResultDone     Result = "done"     // granted, released or broken
	ResultHeld     Result = "held"     // refused: somebody else's
	ResultLost     Result = "lost"     // refused: the claim has ended
	ResultReleased Result = "released" // refused: the claim was given up
	ResultRefused  Result = "refused"  // for another reason, and not applied
	ResultUnknown  Result = "unknown"  // may have been applied, or may yet be
)

// Operation is one call of a provider's method.
type Operation struct {
	Worker int `json:"worker"`
	// Number is its place among those of its worker. Those of different claims that
	// begin in the same instant may come in any order.
	Number int    `json:"-"`
	Layer  Layer  `json:"layer"`
	Verb   string `json:"verb"` // acquire, renew, release, break
	Name   string `json:"name"`
	// Claim is a label for the claim's ID: worker and number, "3.17".
	Claim string        `json:"claim,omitempty"`
	TTL   time.Duration `json:"ttl,omitempty"`
	// Immediate is a break's.
	Immediate bool          `json:"immediate,omitempty"`
	Call      time.Duration `json:"call"`
	// Return is 0 if the call never returned: its process was killed, say.
	Return time.Duration `json:"return"`
	// Overrun is for how long the call went on after its context had ended.
	Overrun time.Duration `json:"overrun,omitempty"`
	Result  Result        `json:"result"`
	Token   int64         `json:"token,omitempty"`
	// Stray and StrayClaim are what a grant was for, if not for what was asked.
	Stray      string `json:"stray,omitempty"`
	StrayClaim string `json:"stray_claim,omitempty"`
	// Holder is the claim that a refusal names; "" if it names none for certain.
	Holder string `json:"holder,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Hold is a lease as its holder knew it.
type Hold struct {
	Worker int           `json:"worker"`
	Name   string        `json:"name"`
	Claim  string        `json:"claim"`
	Token  int64         `json:"token"`
	From   time.Duration `json:"from"`  // the acquire had returned
	Until  time.Duration `json:"until"` // of the latest renewal's trust
	// End is when it was given up or the manager declared it lost; 0 if never.
	End    time.Duration      `json:"end"`
	Ending Ending             `json:"ending"`
	Reason leasing.LostReason `json:"reason,omitempty"`
	// Told is when the holder saw its context end; 0 if it did not, or had
	// given the lease up before.
	Told     time.Duration `json:"told,omitempty"`
	Renewals int           `json:"renewals,omitempty"`
}

// Ending says how a hold ended.
type Ending string

// The endings.
const (
	EndingGivenUp   Ending = "given up"
	EndingLost      Ending = "lost"
	EndingAbandoned Ending = "abandoned" // its manager was closed under it, like that of a process that dies
	EndingKilled    Ending = "killed"    // with its process
)

// trusted is the end of the time for which the holder trusted the lease.
func (t Hold) trusted() time.Duration {
	if t.End == 0 {
		return t.Until
	}
	return min(t.Until, t.End)
}

// late is how long after the end of its trust the holder heard of the loss. A
// process that was stopped could not hear before it went on.
func (h *History) late(t Hold) (time.Duration, bool) {
	if t.Ending != EndingLost || t.Told == 0 {
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

// Write is one attempt to write to the resource that a name protects.
type Write struct {
	// Order is its place among all that the resource took.
	Order  int           `json:"-"`
	Worker int           `json:"worker"`
	Name   string        `json:"name"`
	Claim  string        `json:"claim"`
	Token  int64         `json:"token"`
	Call   time.Duration `json:"call"`
	Return time.Duration `json:"return"`
	// Trusted says that the holder's lease was good before the write and after.
	Trusted  bool `json:"trusted"`
	Accepted bool `json:"accepted"`
}

// Fault is one fault that was injected, or one that befell a process or server.
type Fault struct {
	At     time.Duration `json:"at"`
	Until  time.Duration `json:"until,omitempty"` // 0 for a moment
	Worker int           `json:"worker"`          // -1 if it concerns all
	Name   string        `json:"name,omitempty"`  // "" if it concerns all
	Verb   string        `json:"verb,omitempty"`
	Kind   string        `json:"kind"`
	Rule   string        `json:"rule,omitempty"`
}

// Stop is a time in which a worker's process stood still.
type Stop struct {
	Worker int           `json:"worker"`
	From   time.Duration `json:"from"`
	To     time.Duration `json:"to"`
}

// stopped says whether a worker's process stood still during a call.
func (h *History) stopped(o Operation) bool {
	return slices.ContainsFunc(h.Stops, func(s Stop) bool { return s.Worker == o.Worker && s.From < o.Return && s.To > o.Call })
}

// FreeAt is when a name could be taken again after the end.
type FreeAt struct {
	Name string        `json:"name"`
	At   time.Duration `json:"at"` // 0 if not within the bound
	By   time.Duration `json:"by"` // the bound
}

// label calls each claim by its worker and by how many that had acquired before it.
// Managers choose IDs at random.
func (h *History) label() {
	slices.SortFunc(h.Operations, func(a, b Operation) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Number, b.Number))
	})
	labels, claims := map[string]string{"": ""}, map[int]int{}
	for _, o := range h.Operations {
		if _, ok := labels[o.Claim]; !ok {
			claims[o.Worker]++
			labels[o.Claim] = fmt.Sprintf("%d.%d", o.Worker, claims[o.Worker])
		}
	}
	for i := range h.Operations {
		o := &h.Operations[i]
		for _, id := range []*string{&o.Claim, &o.Holder, &o.StrayClaim} {
			*id = cmp.Or(labels[*id], *id)
		}
	}
	for i, t := range h.Holds {
		h.Holds[i].Claim = cmp.Or(labels[t.Claim], t.Claim)
	}
	for i, w := range h.Writes {
		h.Writes[i].Claim = cmp.Or(labels[w.Claim], w.Claim)
	}
}

// sort puts the history in an order that does not depend on which goroutine
// came to write first.
func (h *History) sort() {
	slices.SortStableFunc(h.Operations, func(a, b Operation) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Worker, b.Worker),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.Number, b.Number))
	})
	slices.SortStableFunc(h.Holds, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Claim, b.Claim))
	})
	slices.SortFunc(h.Writes, func(a, b Write) int { return cmp.Compare(a.Order, b.Order) })
	slices.SortStableFunc(h.Faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Verb, b.Verb),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Rule, b.Rule))
	})
}

// names returns the names that occur, sorted.
func (h *History) names() []string {
	seen := map[string]bool{}
	for _, f := range h.Free {
		seen[f.Name] = true
	}
	for _, t := range h.Holds {
		seen[t.Name] = true
	}
	for _, o := range h.Operations {
		seen[o.Name] = true
	}
	for _, w := range h.Writes {
		seen[w.Name] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// end is the time of the last thing that happened.
func (h *History) end() time.Duration {
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
