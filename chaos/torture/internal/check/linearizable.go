package check

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// orders looks for an order at each layer. It sets the claim that each break hit: the client of a break may not
// have seen the claim.
func (n *nameHistory) orders() {
	met := map[int64]string{} // by token; empty with votes, since a minority may have granted a token
	for _, o := range n.operations {
		if o.Layer == history.LayerBackend && o.Granted() && !n.Votes {
			met[o.Token] = o.Claim
		}
	}
	for _, layer := range layers {
		seen := seenBy(n.operations, layer)
		for i := range seen {
			if o := &seen[i]; o.Verb == "break" {
				o.Claim = met[o.Token]
			}
		}
		n.linearizable(layer, seen)
	}
}

// linearizable looks for an order of one layer's operations in which the model gives the same
// answers. It goes through the calls and returns in chronological order, and keeps all possible
// states of the name. An operation that returns must have taken effect, possibly after other
// operations in flight. (Lowe's just-in-time linearization. The effort grows with the number of
// operations in flight at a time, and not with the length of the history.)
func (n *nameHistory) linearizable(layer history.Layer, seen []history.Operation) {
	s := search{nameHistory: n, steps: n.SearchSteps, states: []state{{leaseState: leaseState{votes: n.Votes}}}}
	all := moves(withoutTransientRefusals(seen, n.operations))
	for _, e := range events(all) {
		m := &all[e.move]
		switch {
		case e.kind == called:
			s.begin(m)
		case e.kind == forgotten:
			s.forget(m)
		case !s.take(m):
			if s.steps <= 0 {
				n.undecided = append(n.undecided, fmt.Sprintf("%s (%s)", n.name, layer))
			} else {
				n.violation(min(m.Return, m.Call+time.Hour), "no order explains what the %s saw: %s does not fit where %s",
					layer, m.Operation, s.states[len(s.states)-1].leaseState)
			}
			return
		}
	}
}

// event is the call or the return of a move.
type event struct {
	at    time.Duration
	kind  int // calls precede returns in the same instant, unless order decides
	order int // 0 if unknown
	move  int
}

// events returns the calls and returns of moves in chronological order. An optional move without an end has no
// return.
func events(all []move) (events []event) {
	for i := range all {
		m := &all[i]
		events = append(events, event{m.Call, called, m.Begun, i})
		switch {
		case !m.optional:
			events = append(events, event{m.Return, returned, m.Ended, i})
		case m.Return != history.Never:
			events = append(events, event{m.Return, forgotten, math.MaxInt, i})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int {
		if a.order == 0 || b.order == 0 {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind))
		}
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order))
	})
	return events
}

const (
	called = iota
	returned
	forgotten
)

// maxInFlight is the maximum number of moves in flight at a time.
const maxInFlight = 256

// slots is a set of slots of moves in flight.
type slots [maxInFlight / 64]uint64

func (p *slots) has(i int) bool { return p[i/64]&(1<<(i%64)) != 0 }

func (p *slots) add(i int) { p[i/64] |= 1 << (i % 64) }

func (p *slots) drop(i int) { p[i/64] &^= 1 << (i % 64) }

// state is a possible state of the name, with the moves in flight that have taken effect in
// that state.
type state struct {
	leaseState
	applied slots
}

// stateKey holds the fields that are equal in states which differ only in their times.
type stateKey struct {
	claim    string
	token    int64
	breaking bool
	applied  slots
}

// stateSet has the possible states of the name. No state is covered by an earlier one in the list.
type stateSet struct {
	all   []state
	byKey map[stateKey][]int
}

// add adds a state, unless a state in the list covers it already.
func (all *stateSet) add(w state) {
	k := stateKey{w.claim, w.token, w.breaking, w.applied}
	for _, i := range all.byKey[k] {
		if all.all[i].covers(&w.leaseState) {
			return
		}
	}
	if all.byKey == nil {
		all.byKey = map[stateKey][]int{}
	}
	all.byKey[k] = append(all.byKey[k], len(all.all))
	all.all = append(all.all, w)
}

// search looks for an order. Its effort is counted in steps and not in time, so
// that it is the same on every machine, and in virtual time.
type search struct {
	*nameHistory
	steps  int // steps left
	states []state
	open   [maxInFlight]*move
	slots  slots
}

func (s *search) begin(m *move) {
	for i, word := range s.slots {
		if free := bits.TrailingZeros64(^word); free < 64 {
			m.slot = 64*i + free
			s.slots.add(m.slot)
			s.open[m.slot] = m
			return
		}
	}
	s.steps = 0 // too many moves at a time
}

// end frees the slot of a move.
func (s *search) end(m *move) {
	s.slots.drop(m.slot)
	for w := range s.states {
		s.states[w].applied.drop(m.slot)
	}
}

// forget ends a move that has taken effect by now, or never takes effect. A released name may have been
// acquired since, by a claim that no operation has shown yet. An acquire whose claim was never
// seen can be left out, since it explains no answer.
func (s *search) forget(m *move) {
	if m.Verb == "release" {
		s.states = append(s.states, s.apply(m)...)
	}
	s.end(m)
	var after stateSet
	for _, w := range s.states {
		after.add(w)
	}
	s.states = after.all
}

// take keeps the states in which a move has taken effect. If there is none, it reports false, and
// does not change the states.
func (s *search) take(m *move) bool {
	taken := s.apply(m)
	if len(taken) == 0 {
		return false
	}
	s.states = taken
	s.end(m)
	return true
}

// apply returns the states in which a move has taken effect, alone or after other moves in
// flight. It returns no state if the search takes too many steps.
func (s *search) apply(m *move) []state {
	var taken, reached stateSet
	for _, w := range s.states {
		reached.add(w)
	}
	for i := 0; i < len(reached.all); i++ { //nolint:intrange // the loop extends reached.all
		from := reached.all[i]
		if from.applied.has(m.slot) {
			taken.add(from)
			continue
		}
		for part, word := range s.slots {
			for word &^= from.applied[part]; word != 0; word &= word - 1 {
				if s.steps--; s.steps <= 0 {
					return nil
				}
				other := s.open[64*part+bits.TrailingZeros64(word)]
				ok, next := from.step(other, s.Margin(other.TTL))
				if !ok {
					continue
				}
				w := state{next, from.applied}
				w.applied.add(other.slot)
				if other == m {
					taken.add(w)
				} else {
					reached.add(w)
				}
			}
		}
	}
	return taken.all
}
