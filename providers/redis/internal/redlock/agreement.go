package redlock

import "github.com/distributedleasing/leasing/abstractions"

// How the attempts of one claim agree on its token.
//
// Nodes make up tokens of their own. An attempt that has a majority takes the
// highest, so that it is greater than the token of every holder before: each of those
// had a majority too, and so a node in common, whose fence is at least that high. And
// it has a majority confirm the token, so that the next holder finds it in the same way.
//
// But there may be several attempts of one claim: a reply was lost, or an acquire is
// delivered twice. They meet different majorities, and the highest token of one is
// not that of another; yet a claim has one token while it lives. So this is a vote in
// the manner of Paxos: an attempt is not accepted where a later one has asked (promise),
// and it takes over what an earlier one may have agreed on (won). As in Fast Paxos a
// majority of nodes that have made up the same token by themselves needs no second
// round. (L. Lamport, "Paxos Made Simple", 2001; "Fast Paxos", 2006. There a fast round
// needs more than a majority; here an attempt that can't tell which of two tokens was
// agreed on waits for the other nodes.)

// stance is what a node has said to an attempt.
type stance uint8

const (
	noAnswer  stance = iota // yet
	forUs                   // the claim holds the node
	forOther                // another claim does
	forWaiter               // the node is reserved for a waiter
	overOver                // the claim was released or broken
	noVote                  // an error, or the node casts none for now
)

// vote is a node's latest answer.
type vote struct {
	stance  stance
	pending bool // it is waited for
	silent  bool // it did not answer the last time either

	token   int64  // forUs: as the node has it
	won     int64  // the attempt that has agreed on it with a majority, or 0
	made    int64  // the attempt that got the node
	promise int64  // the latest attempt that has asked
	before  int64  // the node's token before that
	freed   string // the ID that was released here last, of a node that was free or is in quarantine

	held   *abstractions.HeldError // forOther and forWaiter
	err    error                   // noVote
	unsure bool                    // noVote: the request may have been applied
}

// hides says that the node may hold the claim without our knowing.
func (v *vote) hides() bool { return v.pending || v.stance == noVote && v.unsure }

// unseen says that nothing is known of what the node has: also one that did nothing
// now, for want of memory or because it has lost its data, may have voted for an
// earlier attempt.
func (v *vote) unseen() bool { return v.pending || v.stance == noVote || v.stance == noAnswer }

// poise is where an attempt stands.
type poise uint8

const (
	undecided   poise = iota
	ended             // the claim was released
	queued            // it is a waiter's turn
	agreed            // a majority is for us, and the token is known
	overtaken         // a later attempt of this claim has asked
	outvoted          // so many are for others that no majority is left, of those that answer
	unreachable       // so many have failed
)

// tally is what an attempt knows.
type tally struct {
	votes  []vote
	order  []int // of the servers, for all processes the same; nil if that of votes
	quorum int
	try    int64
	token  int64 // that this attempt has begun to confirm, or 0: it may have only one
}

// count counts the nodes for which something is true.
func (t *tally) count(is func(v *vote) bool) (n int) {
	for i := range t.votes {
		if is(&t.votes[i]) {
			n++
		}
	}
	return n
}

// at is the vote of the k-th server in order.
func (t *tally) at(k int) *vote {
	if t.order == nil {
		return &t.votes[k]
	}
	return &t.votes[t.order[k]]
}

// ours is a node that counts for this attempt.
func (t *tally) ours(v *vote) bool { return v.stance == forUs && v.promise == t.try }

// passed is a node that a later attempt has asked.
func (t *tally) passed(v *vote) bool { return v.stance == forUs && v.promise > t.try }

func against(v *vote) bool { return v.stance == forOther || v.stance == forWaiter }
func pending(v *vote) bool { return v.pending }

// awaited is a node that is likely to answer.
func awaited(v *vote) bool { return v.pending && !v.silent }

// poise decides. With agreed comes the token, and whether a majority has it already.
func (t *tally) poise() (where poise, token int64, settled bool) {
	ours, open := t.count(t.ours), t.count(pending)
	passed := t.count(t.passed)
	if t.count(func(v *vote) bool { return v.stance == overOver }) > 0 {
		return ended, 0, false
	}
	if t.first() == forWaiter && !t.mayLive() {
		return queued, 0, false
	}
	if token, ok := t.learned(); ok {
		return agreed, token, true
	}
	switch {
	case ours >= t.quorum:
		if t.token != 0 {
			return agreed, t.token, false
		}
		switch token, certain := t.choose(); {
		case !certain && open > 0:
			return undecided, 0, false
		case !certain && passed > 0:
			return overtaken, 0, false
		default:
			return agreed, token, t.unanimous(token)
		}
	case t.contested():
		return outvoted, 0, false
	case ours+open >= t.quorum:
		return undecided, 0, false
	case passed > 0 && ours+open+passed >= t.quorum:
		return overtaken, 0, false
	case t.excluded():
		return outvoted, 0, false
	case open > 0:
		return undecided, 0, false
	}
	return unreachable, 0, false
}

// contested says that those who answer are a majority, and disagree: that others fail
// is not what is in the way. Not if the claim may hold the name by another attempt: then
// nobody can say that it does not.
func (t *tally) contested() bool {
	return t.count(t.ours)+t.count(against) >= t.quorum && t.count(awaited) == 0 && !t.mayLive()
}

// excluded says that no majority is left, whatever becomes of our own votes.
func (t *tally) excluded() bool { return len(t.votes)-t.count(against) < t.quorum }

// first is the answer of the first node that gives one: waiters queue there, so it
// alone says whose turn it is. There is none yet while a node before it is waited for.
func (t *tally) first() stance {
	for k := range t.votes {
		switch v := t.at(k); {
		case v.pending && v.silent:
		case v.pending:
			return noAnswer
		case v.stance != noVote && v.stance != noAnswer:
			return v.stance
		}
	}
	return noAnswer
}

// learned is a token that an attempt, maybe another one, has agreed on for certain.
func (t *tally) learned() (token int64, ok bool) {
	for i := range t.votes {
		v := &t.votes[i]
		if v.stance != forUs || v.won == 0 {
			continue
		}
		same := t.count(func(o *vote) bool { return o.stance == forUs && o.won == v.won && o.token == v.token })
		if same >= t.quorum {
			return v.token, true
		}
	}
	return 0, false
}

// unanimous says that a majority has made up the same token for this attempt.
func (t *tally) unanimous(token int64) bool {
	return t.count(func(v *vote) bool { return t.ours(v) && v.won == 0 && v.made == t.try && v.token == token }) >= t.quorum
}

// choose returns the token to agree on: the one that another attempt may have agreed
// on before, if there is one, else the highest. It is not certain if there may be
// one that nodes without an answer know. Then the highest is the one that is safe to
// take: greater than any other holder's.
func (t *tally) choose() (token int64, certain bool) {
	highest, unseen := int64(0), 0
	for i := range t.votes {
		switch v := &t.votes[i]; {
		case t.ours(v):
			highest = max(highest, v.token)
		case v.unseen() || v.stance == forUs && v.won > t.try: // what it had made up is not known any more
			unseen++
		}
	}
	earlier, certain := t.earlier(unseen)
	if earlier == 0 {
		return highest, certain
	}
	fit := t.count(func(v *vote) bool { return t.ours(v) && v.before < earlier })
	if fit < t.quorum { // others may have held the name since
		return highest, unseen == 0
	}
	return earlier, certain
}

// earlier is the token that another attempt may have agreed on, 0 if none has. What
// this attempt has made nobody else can have counted before.
func (t *tally) earlier(unseen int) (token int64, certain bool) {
	var latest int64
	for i := range t.votes {
		if v := &t.votes[i]; v.stance == forUs && v.won > latest && v.won < t.try {
			latest, token = v.won, v.token
		}
	}
	if latest > 0 {
		return token, true
	}
	madeUp := func(v *vote) bool { return v.stance == forUs && v.won == 0 }
	for i := range t.votes {
		v := &t.votes[i]
		if !madeUp(v) || v.made == t.try || v.token == token {
			continue
		}
		same := t.count(func(o *vote) bool { return madeUp(o) && o.made == v.made && o.token == v.token })
		if same+unseen < t.quorum {
			continue
		}
		if token != 0 {
			return 0, false
		}
		token = v.token
	}
	return token, true
}

// mayLive says whether another attempt of the claim may have won: then what this one
// has got is its lease.
func (t *tally) mayLive() bool {
	return t.count(func(v *vote) bool {
		return v.unseen() || v.stance == forUs && (v.made != t.try || v.won != 0)
	}) >= t.quorum
}
