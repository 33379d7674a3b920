package torture

import (
	"fmt"
	"math"
	"time"

	"github.com/distributedleasing/leasing"
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
	breaking     bool // renewals are refused: it was broken, or has run out
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

// move is an operation in the search for an order.
type move struct {
	operation
	// optional says that nobody knows its outcome: it took effect from its call to its
	// return, or not at all.
	optional bool
	place    int // among those under way
}

// step says whether an operation can take effect now, and what follows. Time only
// ever moves to the earliest moment at which all so far can have happened, so a
// history is refused only if no clock could explain it. An optional operation that
// would change nothing does not take effect.
func (l lease) step(o *move, margin time.Duration) (bool, lease) {
	l.now = max(l.now, o.Call)
	if l.now > o.Return {
		return false, l
	}
	switch o.Verb {
	case "acquire":
		return l.acquire(o, margin)
	case "renew":
		return l.renew(o, margin)
	case "release":
		return l.release(o)
	}
	return l.broken(o)
}

// covers says that whatever can follow another state can follow this one, too.
func (l *lease) covers(other *lease) bool {
	return l.now <= other.now && l.runsOut <= other.runsOut && l.last <= other.last
}

func (l lease) acquire(o *move, margin time.Duration) (bool, lease) {
	latest := o.Return
	switch {
	case o.Result == resultHeld: // by somebody else: a claim is no obstacle to itself
		return l.claim == o.Holder && o.Holder != o.Claim, l
	case o.Result == resultUnknown && l.claim == o.Claim:
		return l.deferred(o)
	case l.claim == o.Claim && (l.token == 0 || o.Token == l.token || l.runsOut > latest):
		if l.breaking || o.Token != l.token && (l.token != 0 && !l.votes || o.Token <= l.last) {
			return false, l
		}
		l.token, l.last, l.runsOut = o.Token, max(l.last, o.Token), max(l.runsOut, after(l.begins(o), o.TTL, margin))
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
	l.last, l.runsOut = max(l.last, o.Token), after(l.begins(o), o.TTL, margin)
	return true, l
}

// blocks says that somebody holds the name beyond some time.
func (l lease) blocks(latest time.Duration) bool {
	return l.claim != "" && !l.mayEnd() && l.runsOut > latest
}

// mayEnd says that the lease may be taken back at any time, since nobody was told of it.
func (l lease) mayEnd() bool { return l.votes && l.token == 0 }

func (l lease) renew(o *move, margin time.Duration) (bool, lease) {
	// Not an earlier lease of a claim that came back. The later token of a claim that asked again may not have reached its holder.
	mine := l.claim == o.Claim && (l.token == o.Token || l.votes && l.token > o.Token)
	if o.Result == resultUnknown && (!mine || l.breaking) {
		return l.deferred(o)
	}
	if o.Result != resultLost {
		l.runsOut = after(l.begins(o), o.TTL, margin)
		return mine && !l.breaking, l
	}
	if !mine || l.breaking {
		return true, l
	}
	if l.runsOut > o.Return {
		return false, l // a false loss
	}
	// It has run out, and is renewed no more. Others may be refused because of it until they find so, too: see overdue.
	l.now, l.breaking = max(l.now, l.runsOut), true
	return true, l
}

// begins is when a lease begins at the earliest that a request has taken or renewed. The first votes may have been given long before
// there was a majority, which ends with them.
func (l lease) begins(o *move) time.Duration {
	if l.votes {
		return o.Call
	}
	return l.now
}

func (l lease) release(o *move) (bool, lease) {
	if l.claim != o.Claim {
		return l.deferred(o)
	}
	l.claim, l.token, l.breaking = "", 0, false
	return true, l
}

func (l lease) broken(o *move) (bool, lease) {
	if l.claim == "" || o.Claim != "" && (o.Claim != l.claim || l.token != 0 && o.Token != l.token) {
		return l.deferred(o)
	}
	l.breaking = true
	if l.runsOut == math.MaxInt64 {
		l.runsOut = l.now // after the grace, which is the breaker's to say
	}
	if o.Immediate {
		l.claim, l.token, l.breaking = "", 0, false
	}
	return true, l
}

// deferred is for what has no effect.
func (l lease) deferred(o *move) (bool, lease) { return !o.optional, l }

// after is when a lease runs out by the clock that runs fastest.
func after(now, ttl, margin time.Duration) time.Duration {
	if ttl == leasing.Infinite {
		return math.MaxInt64
	}
	return now + ttl - margin
}
