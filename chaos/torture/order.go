package torture

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// never is the return of an operation that may take effect at any later time.
const never = math.MaxInt64

// linearizable looks for an order of what one layer saw. There may be none, or the
// effort may not be enough.
func (n *named) linearizable(layer layer, seen []operation) {
	search := &search{drift: n.drift, votes: n.Votes, steps: n.MaxSearchSteps}
	moves := moves(settled(seen, n.operations))
	switch ok := porcupine.CheckOperations(search.model(), moves); {
	case ok:
	case search.steps <= 0:
		n.undecided = append(n.undecided, fmt.Sprintf("%s (%s)", n.name, layer))
	default:
		n.noOrder(layer, moves)
	}
}

// moves are the steps for one name.
func moves(operations []operation) []porcupine.Operation {
	last := time.Duration(0)
	all := newClaims(operations)
	steps := make([]porcupine.Operation, 0, len(operations)+1)
	for _, o := range operations {
		last = max(last, o.Call, o.Return)
		if m, matters := all.move(o); matters {
			steps = append(steps, porcupine.Operation{ClientId: max(o.Worker, 0), Input: m, Call: int64(m.Call), Return: int64(m.Return)})
		}
	}
	// The end comes after all that has ended: what is still open then had no effect.
	end := move{operation: operation{Verb: theEnd, Call: last + 1, Return: never}}
	return append(steps, porcupine.Operation{Input: end, Call: int64(end.Call), Return: never})
}

const theEnd = "end"

// settled leaves out the refusals that name a claim as the holder whose own attempt
// was under way at the time, and was refused. A backend of several nodes may have had
// the votes of most, and taken them back.
func settled(seen, operations []operation) []operation {
	refused := map[string][]operation{} // attempts by claim
	for _, o := range operations {
		if o.Verb == "acquire" && o.Result == resultHeld {
			refused[o.Claim] = append(refused[o.Claim], o)
		}
	}
	return slices.DeleteFunc(seen, func(o operation) bool {
		return o.Result == resultHeld && o.Holder != o.Claim && slices.ContainsFunc(refused[o.Holder], func(attempt operation) bool {
			return attempt.Call <= o.Return && attempt.Return >= o.Call
		})
	})
}

// claim is what is known of a claim beside the operation that is looked at. It
// keeps the search short: each operation of unknown outcome that can't matter, and
// that is left in, doubles the number of orders.
type claim struct {
	// released is when it was last known to be; -1 for never.
	released time.Duration
	// held is when it was last seen to hold the name; -1 for never. The acquire of one
	// that nobody saw explains nothing: without it the name is free instead.
	held time.Duration
	// left is when it was first asked to be released. One that was seen
	// after that may have come back, as a ghost, and be released once more.
	left time.Duration
	// leaving is its first release of unknown outcome. Unless it came back a release
	// takes effect once.
	leaving time.Duration
	// tried are the calls of its acquires of unknown outcome, in their
	// order. A claim that did not come back takes the name again only after its
	// lease has run out. For that the first of them will do as well as any: each
	// may land at any later time.
	tried []time.Duration
}

// claims are what is known of each.
type claims map[string]*claim

func (all claims) of(id string) *claim {
	if all[id] == nil {
		all[id] = &claim{released: -1, held: -1, left: never, leaving: never}
	}
	return all[id]
}

func newClaims(operations []operation) claims {
	all := claims{}
	for _, o := range operations {
		c := all.of(o.Claim)
		if o.Verb == "release" {
			c.left = min(c.left, o.Call)
		}
		switch {
		case o.Result == resultHeld:
			holder := all.of(o.Holder)
			holder.held = max(holder.held, o.Return)
		case o.Result == resultDone && (o.Verb == "acquire" || o.Verb == "renew"):
			c.held = max(c.held, o.Return)
		case o.Result == resultDone && o.Verb == "release":
			c.released = max(c.released, o.Return)
		case o.Result == resultUnknown && o.Verb == "release":
			c.leaving = min(c.leaving, o.Call)
		case o.Result == resultUnknown && o.Verb == "acquire":
			c.tried = append(c.tried, o.Call)
		}
	}
	for _, c := range all {
		slices.Sort(c.tried)
	}
	return all
}

// cameBack reports whether it may have held the name again after a release.
func (c *claim) cameBack() bool { return c.held > c.left }

// explains says whether an acquire of unknown outcome is among the first so many of
// its claim as there may have been leases of it, one after the other, until it was
// last seen.
func (c *claim) explains(o operation) bool {
	rank, _ := slices.BinarySearch(c.tried, o.Call)
	return o.TTL <= 0 || rank < 2+int((c.held-c.tried[0])/o.TTL)
}

// move is an operation as the search takes it, and whether it matters: what fits
// any order does not.
func (all claims) move(o operation) (m move, matters bool) {
	m = move{operation: o}
	switch o.Result {
	case resultRefused, resultReleased:
		return m, false
	case resultHeld:
		return m, o.Holder != ""
	case resultDone, resultLost:
		return m, true
	}
	m.Return, m.open = never, true
	c := all.of(o.Claim)
	// Nobody has seen the claim again since its last release. (Backends must
	// remember only the last of the IDs that were released. A delayed request
	// that comes later still is a ghost until its own release or expiry.)
	if c.released > max(o.Call, c.held) {
		m.Return, m.open = c.released, false
	}
	switch o.Verb {
	case "acquire":
		return m, c.held >= 0 && (c.explains(o) || c.cameBack())
	case "renew":
		return m, false // it can only make the lease last longer
	case "release":
		return m, c.held >= 0 && (o.Call == c.leaving || c.cameBack())
	}
	return m, true
}

// noOrder says how far the longest order came, and what did not fit behind it.
func (n *named) noOrder(layer layer, steps []porcupine.Operation) {
	again := &search{drift: n.drift, votes: n.Votes, steps: n.MaxSearchSteps}
	_, info := porcupine.CheckOperationsVerbose(again.model(), steps, 0)
	var longest []int
	for _, order := range info.PartialLinearizations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	reached, placed := lease{votes: n.Votes}, make(map[int]bool, len(longest))
	for _, i := range longest {
		placed[i] = true
		_, reached = reached.step(steps[i].Input.(move), n.drift)
	}
	first := len(steps) - 1
	for i := range steps {
		if !placed[i] && steps[i].Return < steps[first].Return {
			first = i
		}
	}
	o := steps[first].Input.(move).operation
	n.violated(CheckLinearizable, min(o.Return, o.Call+time.Hour), "no order explains what the %s saw: %s does not fit where %s", layer, o, reached)
}

func (o operation) String() string {
	text := fmt.Sprintf("%s of claim %s by worker %d (%s to %s): %s", o.Verb, o.Claim, o.Worker, seconds(o.Call), seconds(o.Return), o.Result)
	if o.Token > 0 {
		text += fmt.Sprintf(", token %d", o.Token)
	}
	if o.Holder != "" {
		text += " by claim " + o.Holder
	}
	return text
}
