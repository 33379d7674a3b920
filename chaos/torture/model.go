package torture

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// lease is what a name's record may be, in one possible order of events.
type lease struct {
	claim string // that holds the name; "" if nobody does
	token int64  // the holder's; 0 if its grant was not heard of
	last  int64  // the highest token that was heard of
	// now is the earliest time that it may be, and runsOut the earliest at which
	// the lease may have run out: by the clock that runs fastest. So what clocks
	// differ by does not add up.
	now, runsOut time.Duration
	breaking     bool // renewals are refused
	over         bool // nothing can happen any more
	votes        bool // see Options.Votes
}

func (l lease) String() string {
	if l.claim == "" {
		return fmt.Sprintf("the name is free and its last token %d", l.last)
	}
	token := "a token that nobody was told"
	if l.token != 0 {
		token = fmt.Sprintf("token %d", l.token)
	}
	return fmt.Sprintf("claim %s holds the name with %s until %s at least", l.claim, token, seconds(l.runsOut))
}

// search looks for an order. Its effort is counted in steps and not in time, so
// that it is the same on every machine, and in virtual time.
type search struct {
	drift time.Duration // how far clocks may differ over a TTL
	votes bool          // see Options.Votes
	steps int           // that are left
}

// model is the sequential specification for porcupine: a lease that runs out, but
// not before its time. Once the steps are used up nothing fits any more.
func (s *search) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return lease{votes: s.votes} },
		Step: func(state, input, _ any) (bool, any) {
			s.steps--
			if s.steps < 0 {
				return false, state
			}
			return state.(lease).step(input.(move), s.drift)
		},
		Hash: func(state any) uint64 {
			l := state.(lease)
			return uint64(l.last)*31 + uint64(l.runsOut)*17 + uint64(l.now)
		},
	}
}

// move is an operation in the search for an order.
type move struct {
	operation
	open bool // its outcome is unknown, and it may land at any time from its call on
}

// step says whether an operation can take effect now, and what follows. Time only
// ever moves to the earliest moment at which all so far can have happened, so a
// history is refused only if no clock could explain it.
func (l lease) step(o move, drift time.Duration) (bool, lease) {
	if o.Verb == theEnd || l.over {
		l.over = true
		return o.Verb == theEnd || o.open, l
	}
	l.now = max(l.now, o.Call)
	latest := o.Return
	if o.open {
		latest = never
	}
	if l.now > latest {
		return false, l
	}
	switch o.Verb {
	case "acquire":
		return l.acquire(o, latest, drift)
	case "renew":
		return l.renew(o, latest, drift)
	case "release":
		return l.release(o)
	}
	return l.broken(o)
}

func (l lease) acquire(o move, latest, drift time.Duration) (bool, lease) {
	switch {
	case o.Result == resultHeld: // by somebody else: a claim is no obstacle to itself
		return l.claim == o.Holder && o.Holder != o.Claim, l
	case o.Result == resultUnknown && l.claim == o.Claim:
		return l.deferred(o)
	case l.claim == o.Claim && (l.token == 0 || o.Token == l.token || l.runsOut > latest):
		if l.breaking || o.Token != l.token && (l.token != 0 || o.Token <= l.last) {
			return false, l
		}
		l.token, l.last, l.runsOut = o.Token, max(l.last, o.Token), max(l.runsOut, l.now+o.TTL-drift)
		return true, l
	case o.Result == resultUnknown && l.blocks(latest):
		return l.deferred(o)
	case l.blocks(latest), o.Result == resultDone && o.Token <= l.last:
		return false, l
	}
	if l.claim != "" && !l.mayEnd() {
		l.now = max(l.now, l.runsOut)
	}
	l.claim, l.token, l.breaking = o.Claim, o.Token, false
	l.last, l.runsOut = max(l.last, o.Token), l.now+o.TTL-drift
	return true, l
}

// blocks says that somebody holds the name beyond some time.
func (l lease) blocks(latest time.Duration) bool {
	return l.claim != "" && !l.mayEnd() && l.runsOut > latest
}

// mayEnd says that the lease may be taken back at any time, since nobody was told of it.
func (l lease) mayEnd() bool { return l.votes && l.token == 0 }

func (l lease) renew(o move, latest, drift time.Duration) (bool, lease) {
	mine := l.claim == o.Claim && l.token == o.Token // not an earlier lease of a claim that came back
	if o.Result == resultDone {
		l.runsOut = l.now + o.TTL - drift
		return mine && !l.breaking, l
	}
	if !mine || l.breaking {
		return true, l
	}
	if l.runsOut > latest {
		return false, l // a false loss
	}
	l.now, l.claim, l.token = max(l.now, l.runsOut), "", 0
	return true, l
}

func (l lease) release(o move) (bool, lease) {
	if l.claim != o.Claim {
		return l.deferred(o)
	}
	l.claim, l.token, l.breaking = "", 0, false
	return true, l
}

func (l lease) broken(o move) (bool, lease) {
	if l.claim == "" {
		return l.deferred(o)
	}
	l.breaking = true
	if o.Immediate {
		l.claim, l.token, l.breaking = "", 0, false
	}
	return true, l
}

// deferred is for what has no effect. An operation whose outcome is unknown and
// that may still land waits for the end then, which spares the search all the
// places in between.
func (l lease) deferred(o move) (bool, lease) {
	return !o.open, l
}
