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
func (n *named) linearizable(layer Layer, seen []Operation) {
	search := &search{drift: n.Drift, steps: n.MaxSearchSteps}
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
func moves(operations []Operation) []porcupine.Operation {
	last := time.Duration(0)
	s := newSightings(operations)
	steps := make([]porcupine.Operation, 0, len(operations)+1)
	for _, o := range operations {
		last = max(last, o.Call, o.Return)
		if m, matters := s.move(o); matters {
			steps = append(steps, porcupine.Operation{ClientId: max(o.Worker, 0), Input: m, Call: int64(m.Call), Return: int64(m.Return)})
		}
	}
	// The end comes after all that has ended: what is still open then had no effect.
	end := move{Operation: Operation{Verb: theEnd, Call: last + 1, Return: never}}
	return append(steps, porcupine.Operation{Input: end, Call: int64(end.Call), Return: never})
}

const theEnd = "end"

// settled leaves out the refusals that name a claim as the holder whose own attempt
// was under way at the time, and was refused. A backend of several nodes may have had
// the votes of most, and taken them back.
func settled(seen, operations []Operation) []Operation {
	refused := map[string][]Operation{} // attempts by claim
	for _, o := range operations {
		if o.Verb == "acquire" && o.Result == ResultHeld {
			refused[o.Claim] = append(refused[o.Claim], o)
		}
	}
	return slices.DeleteFunc(seen, func(o Operation) bool {
		return o.Result == ResultHeld && o.Holder != o.Claim && slices.ContainsFunc(refused[o.Holder], func(attempt Operation) bool {
			return attempt.Call <= o.Return && attempt.Return >= o.Call
		})
	})
}

// sightings is what is known of claims beside the operation that is looked at. It
// keeps the search short: each operation of unknown outcome that can't matter, and
// that is left in, doubles the number of orders.
type sightings struct {
	// released is when each claim was last known to be.
	released map[string]time.Duration
	// held is when each claim was last seen to hold the name. The acquire of one
	// that nobody saw explains nothing: without it the name is free instead.
	held map[string]time.Duration
	// left is when each claim was first asked to be released. One that was seen
	// after that may have come back, as a ghost, and be released once more.
	left map[string]time.Duration
	// tried are the calls of each claim's acquires of unknown outcome, in their
	// order. A claim that did not come back takes the name again only after its
	// lease has run out. For that the first of them will do as well as any: each
	// may land at any later time.
	tried map[string][]time.Duration
	// leaving is the first release of unknown outcome of each claim. Unless the
	// claim came back a release takes effect once.
	leaving map[string]time.Duration
}

func newSightings(operations []Operation) *sightings {
	s := &sightings{
		released: map[string]time.Duration{}, held: map[string]time.Duration{}, left: map[string]time.Duration{},
		tried: map[string][]time.Duration{}, leaving: map[string]time.Duration{},
	}
	for _, o := range operations {
		if o.Verb == "release" {
			earliest(s.left, o.Claim, o.Call)
		}
		switch {
		case o.Result == ResultHeld:
			latest(s.held, o.Holder, o.Return)
		case o.Result == ResultDone && (o.Verb == "acquire" || o.Verb == "renew"):
			latest(s.held, o.Claim, o.Return)
		case o.Result == ResultDone && o.Verb == "release":
			latest(s.released, o.Claim, o.Return)
		case o.Result == ResultUnknown && o.Verb == "release":
			earliest(s.leaving, o.Claim, o.Call)
		case o.Result == ResultUnknown && o.Verb == "acquire":
			s.tried[o.Claim] = append(s.tried[o.Claim], o.Call)
		}
	}
	for _, calls := range s.tried {
		slices.Sort(calls)
	}
	return s
}

func latest(times map[string]time.Duration, claim string, at time.Duration) {
	if known, ok := times[claim]; !ok || at > known {
		times[claim] = at
	}
}

func earliest(times map[string]time.Duration, claim string, at time.Duration) {
	if known, ok := times[claim]; !ok || at < known {
		times[claim] = at
	}
}

// cameBack reports whether a claim may have held the name again after a release.
func (s *sightings) cameBack(claim string) bool {
	left, ok := s.left[claim]
	return ok && s.held[claim] > left
}

// explains says whether an acquire of unknown outcome is among the first so many of
// its claim as there may have been leases of it, one after the other, until it was
// last seen.
func (s *sightings) explains(o Operation, seen time.Duration) bool {
	calls := s.tried[o.Claim]
	rank, _ := slices.BinarySearch(calls, o.Call)
	return o.TTL <= 0 || rank < 2+int((seen-calls[0])/o.TTL)
}

// move is an operation as the search takes it, and whether it matters: what fits
// any order does not.
func (s *sightings) move(o Operation) (m move, matters bool) {
	m = move{Operation: o}
	switch o.Result {
	case ResultRefused, ResultReleased:
		return m, false
	case ResultHeld:
		return m, o.Holder != ""
	case ResultDone, ResultLost:
		return m, true
	}
	m.Return, m.open = never, true
	seen, ever := s.held[o.Claim]
	// Nobody has seen the claim again since its last release. (Backends must
	// remember only the last of the IDs that were released. A delayed request
	// that comes later still is a ghost until its own release or expiry.)
	if at, ok := s.released[o.Claim]; ok && at > max(o.Call, seen) {
		m.Return, m.open = at, false
	}
	switch o.Verb {
	case "acquire":
		return m, ever && (s.explains(o, seen) || s.cameBack(o.Claim))
	case "renew":
		return m, false // it can only make the lease last longer
	case "release":
		return m, ever && (o.Call == s.leaving[o.Claim] || s.cameBack(o.Claim))
	}
	return m, true
}

// noOrder says how far the longest order came, and what did not fit behind it.
func (n *named) noOrder(layer Layer, steps []porcupine.Operation) {
	again := &search{drift: n.Drift, steps: n.MaxSearchSteps}
	_, info := porcupine.CheckOperationsVerbose(again.model(), steps, 0)
	var longest []int
	for _, order := range info.PartialLinearizations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	reached, placed := lease{}, make(map[int]bool, len(longest))
	for _, i := range longest {
		placed[i] = true
		_, reached = reached.step(steps[i].Input.(move), n.Drift)
	}
	first := len(steps) - 1
	for i := range steps {
		if !placed[i] && steps[i].Return < steps[first].Return {
			first = i
		}
	}
	o := steps[first].Input.(move).Operation
	n.violated(CheckLinearizable, min(o.Return, o.Call+time.Hour), "no order explains what the %s saw: %s does not fit where %s", layer, o, reached)
}

func (o Operation) String() string {
	text := fmt.Sprintf("%s of claim %s by worker %d (%s to %s): %s", o.Verb, o.Claim, o.Worker, seconds(o.Call), seconds(o.Return), o.Result)
	if o.Token > 0 {
		text += fmt.Sprintf(", token %d", o.Token)
	}
	if o.Holder != "" {
		text += " by claim " + o.Holder
	}
	return text
}
