package redlock

// How the votes of nodes become one lease, and why there are no two.
//
// A node that is free takes the claim that asks, under a token above each that the name had there. It
// refuses others until the TTL has passed by its clock, or the claim's release, a break or an undo arrives.
// An attempt wins when a majority holds its claim under one token. Most often all nodes take the token that the
// votes propose. If not, the attempt settles on one token, the highest, and has the nodes confirm it.
//
// Who can hold. Two majorities have a node in common, and that holds one claim at a time. So there is a second holder
// only if a node has let go of the first too early. Its TTL is counted from the vote or renewal, thus from later than
// the holder's trust. A node that lost its data casts no vote until the longest TTL has passed (prelude.lua).
// An undo frees what its own attempt got. The node ignores it once a later attempt of the claim has asked
// (promise), or a renewal has come (made is 0): that attempt, or the holder, may count the node. What earlier attempts got
// is undone too where too few nodes have votes of theirs for a majority, with those of which nothing is known (mayLive).
//
// Why tokens rise. A token counts only on nodes whose latest token before this lease (before) is lower, and the winner's
// is on a majority, where the latest token is never lowered. Each earlier holder had a majority too, so one of those nodes
// knew its token before, and each later holder needs one of these nodes.
//
// Attempts of one claim take turns (claims.go), so each finds what the ones before it have got. If their replies were lost, one of
// them may have won, and the claim has its token. An attempt that finds votes of earlier ones waits until a majority has
// the same token, or can't have it. If too few of the nodes answer that know it, the claim gets the highest, maybe a later
// one than before: no resource takes that for an earlier lease, and no other claim has had it.
// A renewal gives nodes the token of its grant again, and goes by before: an earlier lease's is not above it.
//
// What a late request can do. A vote that arrives after its attempt holds the node for a TTL, or until the release, which the
// node remembers. It is not counted, unless by a later attempt of the claim, which asks for itself. A confirmation or an
// undo does nothing after a later attempt has asked, and nothing to another claim. A renewal takes a free node only if its token
// is the latest there and the claim has not ended there: nobody has held the name by that node since.
//
// What a clock that steps can do. Forward, the node lets go early: see package redislease. Back, it holds the
// lease longer. Tokens need no clocks, unless nodes forget or lose what they know (docs/providers/redlock.md).

// decision is where an attempt stands.
type decision uint8

const (
	undecided   decision = iota
	ended                // the claim was released
	queued               // it is a waiter's turn
	agreed               // a majority is for us, and the token is known
	outvoted             // so many are for others that no majority is left, of those that answer
	unreachable          // so many have failed
)

// tally is what an attempt knows.
type tally struct {
	votes  []vote
	order  []int // of the servers, for all processes the same
	quorum int
	try    int64
	token  int64 // on which this attempt has settled, or 0
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

// earlier is a node that another attempt has got, which may have counted it.
func (t *tally) earlier(v *vote) bool { return v.ours() && v.made != t.try }

// decide says where the attempt stands. With agreed comes the token, and whether a majority has it already.
func (t *tally) decide() (where decision, token int64, won bool) {
	ours, open := t.count((*vote).ours), t.count((*vote).isPending)
	if t.count(func(v *vote) bool { return v.stance == forNobody }) > 0 {
		return ended, 0, false
	}
	if t.first().stance == forWaiter && !t.mayLive() {
		return queued, 0, false
	}
	if token, certain := t.choose(); ours >= t.quorum {
		if !certain && open > 0 {
			return undecided, 0, false
		}
		return agreed, token, t.have(token) >= t.quorum
	}
	switch {
	case t.contested():
		return outvoted, 0, false
	case ours+open >= t.quorum:
		return undecided, 0, false
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
	return t.count((*vote).ours)+t.count((*vote).against) >= t.quorum && t.count((*vote).awaited) == 0 && !t.mayLive()
}

// excluded says that no majority is left, whatever becomes of our own votes.
func (t *tally) excluded() bool { return len(t.votes)-t.count((*vote).against) < t.quorum }

var none vote // of a node that has not answered; never changed

// first is the vote of the first node that gives one: waiters queue there, so it
// alone says whose turn it is. There is none yet while a node before it is waited for.
func (t *tally) first() *vote {
	for _, i := range t.order {
		switch v := &t.votes[i]; {
		case v.awaited():
			return &none
		case !v.unseen():
			return v
		}
	}
	return &none
}

// have counts the nodes that have the claim under a token.
func (t *tally) have(token int64) int {
	return t.count(func(v *vote) bool { return v.ours() && v.token == token })
}

// choose returns the token to agree on: the one that a majority has, else the highest. It is not certain
// while an earlier attempt may have agreed on one that nodes without an answer know. Once the attempt has settled on a
// token it stays with it.
func (t *tally) choose() (token int64, certain bool) {
	if t.token != 0 {
		return t.token, true
	}
	certain = true
	unseen := t.count((*vote).unseen)
	for i := range t.votes {
		v := &t.votes[i]
		if !v.ours() {
			continue
		}
		if t.have(v.token) >= t.quorum {
			return v.token, true
		}
		token = max(token, v.token)
		if t.count(func(o *vote) bool { return t.earlier(o) && o.token == v.token }) > max(0, t.quorum-1-unseen) {
			certain = false
		}
	}
	return token, certain
}

// mayLive says whether another attempt of the claim may have won: then what this one
// has got is its lease.
func (t *tally) mayLive() bool {
	return t.count(func(v *vote) bool { return v.unseen() || t.earlier(v) }) >= t.quorum
}
