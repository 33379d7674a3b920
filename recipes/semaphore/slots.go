package semaphore

import (
	"math/rand/v2"
	"time"
)

const (
	// keepFor is how long a slot may be handed over from one waiter of this
	// process to the next before other processes get their turn.
	keepFor = 15 * time.Second
	// restFor is how long it is left alone then: as long as the longest pause
	// of a leasing.Manager that polls, by default.
	restFor = time.Second
)

// slots is what this process does with each slot. The semaphore's lock guards it.
type slots struct {
	all []slot
	in  [3]int // how many are in each state
	// at and step make the order in which slots are asked for. It visits each
	// once before it begins again, and differs from process to process.
	at, step int
	resting  []rest // in the order in which they end
	rested   []int  // asked for before all others
}

type slot struct {
	state state
	// since is when the first of the hand-overs in a row came; zero if the
	// slot came from elsewhere.
	since time.Time
}

// state of a slot. From open it goes to asked, then back or to held; from held
// back to open, at once or after a rest, or to asked, to be handed over.
type state uint8

const (
	open  state = iota // not ours, and nobody here asks for it
	asked              // a request for it is under way
	held               // ours, or left alone for a while
)

type rest struct {
	slot int
	ends time.Time
}

func newSlots(n int) slots {
	s := slots{all: make([]slot, n), in: [3]int{open: n}, at: rand.IntN(n), step: 1}
	if n > 2 {
		for s.step = 0; gcd(s.step, n) != 1; {
			s.step = 1 + rand.IntN(n-1)
		}
	}
	return s
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// available is how many slots can be asked for now.
func (s *slots) available(now time.Time) int {
	for len(s.resting) > 0 && !s.resting[0].ends.After(now) {
		number := s.resting[0].slot
		s.resting = s.resting[1:]
		s.rested = append(s.rested, number)
		s.put(number)
	}
	return s.in[open]
}

// next takes a slot to ask for: one that has rested, or the next in order.
func (s *slots) next(now time.Time) (number int, ok bool) {
	if s.available(now) == 0 {
		return 0, false
	}
	if len(s.rested) > 0 {
		number, s.rested = s.rested[0], s.rested[1:]
	} else {
		for s.all[s.at].state != open {
			s.at = (s.at + s.step) % len(s.all)
		}
		number = s.at
		s.at = (s.at + s.step) % len(s.all)
	}
	s.take(number)
	return number, true
}

// take begins to ask for a slot that is open, or that was held.
func (s *slots) take(number int) { s.move(number, asked) }

// hold notes that a slot which was asked for is ours.
func (s *slots) hold(number int) { s.move(number, held) }

// put gives a slot back that this process does not hold, or no longer. The row
// of hand-overs ends with that.
func (s *slots) put(number int) {
	s.move(number, open)
	s.all[number].since = time.Time{}
}

func (s *slots) move(number int, to state) {
	s.in[s.all[number].state]--
	s.in[to]++
	s.all[number].state = to
}

// handedOver notes that a slot went from one of this process to another.
func (s *slots) handedOver(number int, now time.Time) {
	if s.all[number].since.IsZero() {
		s.all[number].since = now
	}
}

// tired reports whether it is the others' turn to have the slot.
func (s *slots) tired(number int, now time.Time) bool {
	since := s.all[number].since
	return !since.IsZero() && now.Sub(since) >= keepFor
}

// rest leaves a slot that was held alone for a while.
func (s *slots) rest(number int, now time.Time) {
	s.resting = append(s.resting, rest{slot: number, ends: now.Add(restFor)})
}
