package torture

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// never is the return of an operation that may take effect at any later time.
const never = math.MaxInt64

// linearizable looks for an order of what one layer saw, name by name, and
// returns where there is none, and the names for which the effort was not enough.
func linearizable(h *History, layer Layer, terms Terms) (found []Violation, undecided []string) {
	each(byName(h.Operations, func(o Operation) string { return o.Name }), func(name string, operations []Operation) {
		search := &search{drift: terms.Drift, steps: terms.Effort}
		moves := moves(operations, layer)
		switch ok := porcupine.CheckOperations(search.model(), moves); {
		case ok:
		case search.steps <= 0:
			undecided = append(undecided, fmt.Sprintf("%s (%s)", name, layer))
		default:
			found = append(found, noOrder(name, layer, moves, terms))
		}
	})
	return found, undecided
}

// moves are the steps for one name. Clients know nothing of the breaks that befall
// them: those are taken from below.
func moves(operations []Operation, layer Layer) []porcupine.Operation {
	var all []Operation
	last := time.Duration(0)
	for _, o := range operations {
		last = max(last, o.Call, o.Return)
		if o.Layer == layer || o.Verb == "break" && o.Layer == Backend {
			all = append(all, o)
		}
	}
	s := newSightings(all)
	steps := make([]porcupine.Operation, 0, len(all)+1)
	for _, o := range all {
		if m, matters := s.move(o); matters {
			steps = append(steps, porcupine.Operation{ClientId: max(o.Worker, 0), Input: m, Call: int64(m.Call), Return: int64(m.Return)})
		}
	}
	// The end comes after all that has ended: what is still open then had no effect.
	end := move{Operation: Operation{Verb: theEnd, Call: last + 1, Return: never}}
	return append(steps, porcupine.Operation{Input: end, Call: int64(end.Call), Return: never})
}

const theEnd = "end"

// sightings is what is known of claims beside the operation that is looked at. It
// keeps the search short: each operation of unknown outcome that can't matter, and
// that is left in, doubles the number of orders.
type sightings struct {
	// released is when each claim was last known to be.
	released map[string]time.Duration
	// held is when each claim was last seen holding the name. The acquire of one
	// that nobody saw explains nothing: without it the name is free instead.
	held map[string]time.Duration
	// left is when each claim was first asked to be released. One that was seen
	// after that may have come back, as a ghost, and be released once more.
	left map[string]time.Duration
	// tried are the acquires of unknown outcome of each claim: the first and the
	// last. A claim that did not come back takes the name again only after its
	// lease has run out.
	tried map[string][2]time.Duration
	// leaving is the first release of unknown outcome of each claim. Unless the
	// claim came back a release takes effect once.
	leaving map[string]time.Duration
}

func newSightings(operations []Operation) *sightings {
	s := &sightings{
		released: map[string]time.Duration{}, held: map[string]time.Duration{}, left: map[string]time.Duration{},
		tried: map[string][2]time.Duration{}, leaving: map[string]time.Duration{},
	}
	for _, o := range operations {
		if o.Verb == "release" {
			earliest(s.left, o.Claim, o.Call)
		}
		switch {
		case o.Result == Held:
			latest(s.held, o.Holder, o.Call)
		case o.Result == Done && (o.Verb == "acquire" || o.Verb == "renew"):
			latest(s.held, o.Claim, o.Call)
		case o.Result == Done && o.Verb == "release":
			latest(s.released, o.Claim, o.Return)
		case o.Result == Unknown && o.Verb == "release":
			earliest(s.leaving, o.Claim, o.Call)
		case o.Result == Unknown && o.Verb == "acquire":
			span, ok := s.tried[o.Claim]
			if !ok {
				span = [2]time.Duration{o.Call, o.Call}
			}
			s.tried[o.Claim] = [2]time.Duration{min(span[0], o.Call), max(span[1], o.Call)}
		}
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

// move is an operation as the search takes it, and whether it matters: what fits
// any order does not.
func (s *sightings) move(o Operation) (m move, matters bool) {
	m = move{Operation: o}
	switch o.Result {
	case Refused, Released:
		return m, false
	case Held:
		return m, o.Holder != ""
	case Done, Lost:
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
	switch span := s.tried[o.Claim]; o.Verb {
	case "acquire":
		return m, ever && (o.Call == span[0] || o.Call == span[1] || s.cameBack(o.Claim))
	case "renew":
		return m, false // it can only make the lease last longer
	case "release":
		return m, ever && (o.Call == s.leaving[o.Claim] || s.cameBack(o.Claim))
	}
	return m, true
}

// noOrder says how far the longest order came, and what did not fit behind it.
func noOrder(name string, layer Layer, steps []porcupine.Operation, terms Terms) Violation {
	again := &search{drift: terms.Drift, steps: terms.Effort}
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
		_, reached = reached.step(steps[i].Input.(move), terms.Drift)
	}
	first := len(steps) - 1
	for i := range steps {
		if !placed[i] && steps[i].Return < steps[first].Return {
			first = i
		}
	}
	o := steps[first].Input.(move).Operation
	return Violation{Check: Linearizable, Name: name, At: min(o.Return, o.Call+time.Hour), Text: fmt.Sprintf(
		"no order explains what the %s saw: %s does not fit where %s", layer, o, reached)}
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
