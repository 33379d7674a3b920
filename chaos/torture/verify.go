package torture

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
)

// Check names one of the checks.
type Check string

// The checks that are made during a run, too: see the package's documentation for all.
const (
	checkHang      Check = "hang"
	checkLeak      Check = "leak"
	checkClose     Check = "close"
	checkGrowth    Check = "growth"
	checkEvents    Check = "events"
	checkTrust     Check = "trust"
	checkRenewal   Check = "renewal"
	checkGoroutine Check = "goroutine"
)

// Violation is a broken promise.
type Violation struct {
	Check Check         `json:"check"`
	Name  string        `json:"name"` // of the lease; empty if it concerns no lease
	At    time.Duration `json:"at"`   // since the beginning of the run
	Text  string        `json:"text"`
}

func (v Violation) String() string {
	where := ""
	if v.Name != "" {
		where = v.Name + " "
	}
	return fmt.Sprintf("%s: %sat %s: %s", v.Check, where, seconds(v.At), v.Text)
}

// verification is a check of a history. Of the options it reads Workers, Patience, Plan,
// AssumptionsBroken, Votes, MaxSearchSteps and the numbers of Manager.
type verification struct {
	Options
	lateness  leasing.Lateness // the backend's: how late a lease may run out
	pushes    bool             // the backend wakes waiters
	h         *history
	end       time.Duration
	heedless  bool          // faults outlast the contexts of requests
	reach     time.Duration // for how long a fault may have consequences
	found     []Violation
	undecided []string
}

// checks are the checks of a name's history, in this order. The strict checks can't be made if
// the run breaks the provider's assumptions.
var checks = []struct {
	Check
	make   func(*named)
	strict bool
}{
	{"overlap", (*named).overlaps, true},
	{checkTrust, (*named).trusts, false},
	{"linearizable", (*named).orders, true},
	{"rules", (*named).rules, true},
	{"tokens", (*named).tokens, false},
	{"fence", (*named).fence, false},
	{checkRenewal, (*named).renewals, false},
	{"loss", (*named).losses, false},
	{"release", (*named).releases, false},
	{"cleanup", (*named).cleanups, true},
	{"liveness", (*named).liveness, true},
	{"word", (*named).tells, false},
	{"waiting", (*named).waiting, false},
	{checkEvents, (*named).events, false},
	{"metadata", (*named).metadata, false},
	{"listing", (*named).listing, true},
	{"ghost", (*named).ghosts, true},
	{"break", (*named).broken, true},
	{"refusal", (*named).refusals, true},
	{"answer", (*named).answers, false},
	{checkHang, (*named).hangs, false},
	{checkClose, (*named).unanswered, false},
	{checkLeak, (*named).overdue, false},
}

// verify makes all checks of the history. It returns the violations in the order in which they
// happened, and the names for which the search ended without a decision after MaxSearchSteps
// steps.
func (v verification) verify(h *history) (violations []Violation, undecided []string) {
	v.h, v.end = h, h.end()
	for _, r := range v.Plan.Rules {
		v.heedless = v.heedless || r.Fault.Heedless
		v.reach = max(v.reach, r.Fault.Delay+r.Fault.Jitter)
	}
	v.reach += 2 * v.Manager.Tuning.RequestTimeout
	for _, n := range v.byName() {
		for _, check := range checks {
			if !check.strict || !v.AssumptionsBroken {
				n.check = check.Check
				check.make(n)
			}
		}
	}
	v.kept()
	slices.SortStableFunc(v.found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Check, b.Check), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(v.found), v.undecided
}

// byName returns the items of the history, grouped by name.
func (v *verification) byName() (all []*named) {
	operations, holds := grouped(v.h.Operations, func(o operation) string { return o.Name }), grouped(v.h.Holds, func(t hold) string { return t.Name })
	writes, waits := grouped(v.h.Writes, func(w write) string { return w.Name }), grouped(v.h.Waits, func(w wait) string { return w.Name })
	sights, notices := grouped(v.h.Sights, func(s sight) string { return s.Name }), grouped(v.h.Notices, func(e notice) string { return e.Name })
	words := grouped(v.h.Words, func(w word) string { return w.Name })
	for _, name := range v.h.names() {
		// A break that found no holder is left out, except with votes: it may have ended the votes of a minority.
		seen := slices.DeleteFunc(operations[name], func(o operation) bool { return o.Vain && !v.Votes })
		n := &named{
			verification: v, name: name, operations: seen, holds: holds[name], writes: writes[name], waits: waits[name],
			sights: sights[name], words: words[name], notices: notices[name], breaks: map[int64][]operation{}, infinite: map[int64]bool{}, claims: map[string]*claim{},
		}
		for i := range n.operations {
			n.add(&n.operations[i])
		}
		for _, e := range n.notices {
			c := n.claim(e.Claim)
			c.notices = append(c.notices, e)
		}
		all = append(all, n)
	}
	return all
}

// grouped returns the items of each name.
func grouped[T any](all []T, name func(T) string) map[string][]T {
	groups := map[string][]T{}
	for _, one := range all {
		groups[name(one)] = append(groups[name(one)], one)
	}
	return groups
}

// named is the history of one name.
type named struct {
	*verification
	check      Check // the current check
	name       string
	operations []operation
	holds      []hold
	writes     []write
	waits      []wait
	sights     []sight
	words      []word
	notices    []notice
	// breaks are the breaks after which another claim may hold the name while the holder trusts its lease, by the
	// token that they have met, or were meant for; 0 if the token is not known.
	breaks   map[int64][]operation
	infinite map[int64]bool // tokens of leases without an end
	claims   map[string]*claim
}

// violated adds a violation of the current check.
func (n *named) violated(at time.Duration, format string, args ...any) {
	n.found = append(n.found, Violation{Check: n.check, Name: n.name, At: at, Text: fmt.Sprintf(format, args...)})
}

// claim is the history of one claim, in order.
type claim struct {
	asked    []*operation // by its manager
	answered []*operation // by the backend
	terms    []term
	notices  []notice
}

func (n *named) claim(id string) *claim {
	if n.claims[id] == nil {
		n.claims[id] = new(claim)
	}
	return n.claims[id]
}

func (n *named) add(o *operation) {
	token := cmp.Or(o.Token, o.IfToken)
	switch {
	case o.extends() && o.TTL == leasing.Infinite:
		n.infinite[o.Token] = true
	case o.Verb == "break" && (o.Immediate || n.infinite[token]) && (o.Result == resultDone || o.Result == resultUnknown):
		n.breaks[token] = append(n.breaks[token], *o)
	}
	c := n.claim(o.Claim)
	if o.Layer == layerBackend {
		c.answered = append(c.answered, o)
		return
	}
	c.asked = append(c.asked, o)
	if t, ok := o.term(n.margin(o.TTL)); ok {
		c.terms = append(c.terms, t)
	}
}

// layers are the layers at which operations are recorded.
var layers = []layer{layerClient, layerBackend}

// seenBy returns the operations that one layer saw. Clients do not see the breaks of
// their leases, and late copies of their acquires may be answered after the lease has
// run out. Breaks are taken from the backend, and the outcome of such a copy counts as unknown.
func seenBy(operations []operation, layer layer) (seen []operation) {
	for _, o := range operations {
		switch {
		case o.Layer == layer, o.Verb == "break" && o.Layer == layerBackend:
			seen = append(seen, o)
		case layer == layerClient && o.Verb == "acquire" && o.Wait == 0 && o.Result == resultDone:
			o.Result = resultUnknown
			seen = append(seen, o)
		}
	}
	return seen
}

// seconds formats a time as on the timeline.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }
