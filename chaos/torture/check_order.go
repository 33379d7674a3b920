package torture

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// orders looks for an order at each layer.
func (n *named) orders() {
	for _, layer := range layers {
		n.linearizable(layer, seenBy(n.operations, layer))
	}
}

// linearizable looks for an order of what one layer saw, in which each answer is the one
// that the model gives. It goes through the calls and returns as they came, and keeps all
// states in which the name may be: an operation that returns must have taken effect, after
// any of those that are under way. (Lowe's just-in-time linearization; the effort grows with
// what is under way at a time, and not with the length of the history.)
func (n *named) linearizable(layer layer, seen []operation) {
	s := search{named: n, steps: n.MaxSearchSteps, worlds: []world{{lease: lease{votes: n.Votes}}}}
	all := moves(settled(seen, n.operations))
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
				n.violated(checkLinearizable, min(m.Return, m.Call+time.Hour), "no order explains what the %s saw: %s does not fit where %s",
					layer, m.operation, s.worlds[len(s.worlds)-1].lease)
			}
			return
		}
	}
}

// event is the call or the return of a move.
type event struct {
	at    time.Duration
	kind  int // of one instant the calls come first, unless the order says more
	order int // 0 if it is not known
	move  int
}

// events are those of some moves as they came. An optional move without an end has none.
func events(all []move) (events []event) {
	for i := range all {
		m := &all[i]
		events = append(events, event{m.Call, called, m.Begun, i})
		switch {
		case !m.optional:
			events = append(events, event{m.Return, returned, m.Ended, i})
		case m.Return != never:
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

// underWay is how many moves may be under way at a time.
const underWay = 256

// places is a set of places of moves under way.
type places [underWay / 64]uint64

func (p *places) has(i int) bool { return p[i/64]&(1<<(i%64)) != 0 }
func (p *places) add(i int)      { p[i/64] |= 1 << (i % 64) }
func (p *places) drop(i int)     { p[i/64] &^= 1 << (i % 64) }

// world is a state that the name may be in, and which of the moves under way have taken
// effect in it.
type world struct {
	lease
	applied places
}

// same says that two worlds differ in their times only.
func (w *world) same(other *world) bool {
	return w.claim == other.claim && w.token == other.token && w.breaking == other.breaking && w.applied == other.applied
}

// search looks for an order. Its effort is counted in steps and not in time, so
// that it is the same on every machine, and in virtual time.
type search struct {
	*named
	steps  int // that are left
	worlds []world
	open   [underWay]*move
	used   places
}

func (s *search) begin(m *move) {
	for i, word := range s.used {
		if free := bits.TrailingZeros64(^word); free < 64 {
			m.place = 64*i + free
			s.used.add(m.place)
			s.open[m.place] = m
			return
		}
	}
	s.steps = 0 // too much at a time
}

// end gives the place of a move back.
func (s *search) end(m *move) {
	s.used.drop(m.place)
	for w := range s.worlds {
		s.worlds[w].applied.drop(m.place)
	}
}

// forget ends a move that may have taken effect, or not.
func (s *search) forget(m *move) {
	s.end(m)
	before := s.worlds
	s.worlds = nil
	for i := range before {
		s.worlds = with(s.worlds, &before[i])
	}
}

// take keeps the worlds in which a move has taken effect, also after others of those under
// way. It reports false, and leaves the worlds, if there is none.
func (s *search) take(m *move) bool {
	var taken []world
	reached := slices.Clone(s.worlds)
	for i := 0; i < len(reached); i++ {
		if reached[i].applied.has(m.place) {
			taken = with(taken, &reached[i])
			continue
		}
		for part, word := range s.used {
			for word &^= reached[i].applied[part]; word != 0; word &= word - 1 {
				if s.steps--; s.steps <= 0 {
					return false
				}
				other := s.open[64*part+bits.TrailingZeros64(word)]
				ok, next := reached[i].step(other, s.margin(other.TTL))
				if !ok {
					continue
				}
				w := world{next, reached[i].applied}
				w.applied.add(other.place)
				if other == m {
					taken = with(taken, &w)
				} else {
					reached = with(reached, &w)
				}
			}
		}
	}
	if len(taken) == 0 {
		return false
	}
	s.worlds = taken
	s.end(m)
	return true
}

// with adds a world, unless another one that is there covers it.
func with(worlds []world, w *world) []world {
	for i := range worlds {
		if worlds[i].same(w) && worlds[i].covers(&w.lease) {
			return worlds
		}
	}
	return append(worlds, *w)
}
