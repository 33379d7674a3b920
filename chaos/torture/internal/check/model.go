package check

import (
	"fmt"
	"math"
	"time"

	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// leaseState is a possible record of a name, in one order of events.
type leaseState struct {
	claim string // the holder's; "" if the name is free
	token int64  // the holder's; 0 if no answer showed its grant
	last  int64  // the highest token in any answer
	// now is the earliest possible time, and runsOut the earliest time at which
	// the lease may have run out, both by the fastest clock. So differences between
	// clocks do not add up.
	now, runsOut time.Duration
	breaking     bool // renewals are refused: the lease was broken, or has run out
	votes        bool // see Limits.Votes
}

func (l leaseState) String() string {
	if l.claim == "" {
		return fmt.Sprintf("the name is free and its last token %d", l.last)
	}
	token := "a token that was never reported"
	if l.token != 0 {
		token = fmt.Sprintf("token %d", l.token)
	}
	return fmt.Sprintf("claim %s holds the name with %s until %s at least", l.claim, token, history.Seconds(l.runsOut))
}

// move is an operation in the search for an order.
type move struct {
	history.Operation
	// optional reports that its outcome is unknown: it took effect between its call and
	// its return, or not at all.
	optional bool
	slot     int // among the moves in flight
}

// step reports whether an operation can take effect now, and returns the next state. Time
// moves only to the earliest moment at which all operations so far can have happened, so a history
// is refused only if no clock can explain the order. An optional operation that would change
// nothing does not take effect.
func (l leaseState) step(o *move, margin time.Duration) (bool, leaseState) {
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
	return l.breakLease(o)
}

// covers reports whether every operation that can follow another state can also follow this state.
func (l *leaseState) covers(other *leaseState) bool {
	return l.now <= other.now && l.runsOut <= other.runsOut && l.last <= other.last
}

func (l leaseState) acquire(o *move, margin time.Duration) (bool, leaseState) {
	latest := o.Return
	switch {
	case o.Result == history.ResultHeld: // by another claim: a claim does not block itself
		return l.claim == o.Holder && o.Holder != o.Claim, l
	case o.Result == history.ResultUnknown && l.claim == o.Claim:
		return l.withoutEffect(o)
	case l.claim == o.Claim && (l.token == 0 || o.Token == l.token || l.runsOut > latest):
		if l.breaking || o.Token != l.token && (l.token != 0 && !l.votes || o.Token <= l.last) {
			return false, l
		}
		l.token, l.last, l.runsOut = o.Token, max(l.last, o.Token), max(l.runsOut, after(l.earliestBeginning(o), o.TTL, margin))
		return true, l
	case o.Result == history.ResultUnknown && l.blocks(latest):
		return l.withoutEffect(o)
	case l.blocks(latest), o.Result == history.ResultDone && o.Token <= l.last:
		return false, l
	}
	if l.claim != "" && !l.mayEnd() {
		l.now = max(l.now, l.runsOut)
	}
	l.claim, l.token, l.breaking = o.Claim, o.Token, false
	l.last, l.runsOut = max(l.last, o.Token), after(l.earliestBeginning(o), o.TTL, margin)
	return true, l
}

// blocks reports whether a claim holds the name beyond a time.
func (l leaseState) blocks(latest time.Duration) bool {
	return l.claim != "" && !l.mayEnd() && l.runsOut > latest
}

// mayEnd reports whether the votes of the lease may be taken back at any time, since no answer showed its grant.
func (l leaseState) mayEnd() bool { return l.votes && l.token == 0 }

func (l leaseState) renew(o *move, margin time.Duration) (bool, leaseState) {
	// The token must match, since the claim may have been granted a second lease. With votes it may also be earlier: the holder may
	// not have received the later token of a repeated acquire.
	mine := l.claim == o.Claim && (l.token == o.Token || l.votes && l.token > o.Token)
	if o.Result == history.ResultUnknown && (!mine || l.breaking) {
		return l.withoutEffect(o)
	}
	if o.Result != history.ResultLost {
		l.runsOut = after(l.earliestBeginning(o), o.TTL, margin)
		return mine && !l.breaking, l
	}
	if !mine || l.breaking {
		return true, l
	}
	if l.runsOut > o.Return {
		return false, l // a false loss
	}
	// The lease has run out, and can't be renewed. It may block other claims until their requests find that it has run out: see falseRefusals.
	l.now, l.breaking = max(l.now, l.runsOut), true
	return true, l
}

// earliestBeginning returns the earliest beginning of a lease that a request has granted or renewed. With votes, the first votes may have been
// given long before there was a majority, and the majority ends when the first votes end.
func (l leaseState) earliestBeginning(o *move) time.Duration {
	if l.votes {
		return o.Call
	}
	return l.now
}

func (l leaseState) release(o *move) (bool, leaseState) {
	if l.claim != o.Claim {
		return l.withoutEffect(o)
	}
	l.claim, l.token, l.breaking = "", 0, false
	return true, l
}

func (l leaseState) breakLease(o *move) (bool, leaseState) {
	if l.claim == "" || o.Claim != "" && (o.Claim != l.claim || l.token != 0 && o.Token != l.token) {
		return l.withoutEffect(o)
	}
	l.breaking = true
	if l.runsOut == math.MaxInt64 {
		l.runsOut = l.now // after the grace period that the break sets
	}
	if o.Immediate {
		l.claim, l.token, l.breaking = "", 0, false
	}
	return true, l
}

// withoutEffect allows an operation without an effect, unless the operation is optional.
func (l leaseState) withoutEffect(o *move) (bool, leaseState) { return !o.optional, l }
