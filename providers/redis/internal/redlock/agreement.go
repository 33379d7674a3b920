package redlock

// This file turns the votes of nodes into one lease. This is why two claims never hold a name at the same time:
//
// A free node votes for the claim that asks, under a token above every token that the name had on the node. It
// refuses other claims until the TTL has passed by its clock, or until a release, break or undo of the claim
// arrives. An attempt wins when a majority holds its claim under one token. Usually all nodes accept the token
// that the requests for votes propose. If not, the attempt settles on one token, the highest, and sends a
// confirmation to the nodes.
//
// Mutual exclusion. Two majorities share a node, and a node holds one claim at a time. So there is a second holder only if a
// node has dropped the first claim too early. A node counts the TTL from its vote or renewal, which is later than the start of
// the holder's trust. A node that lost its data casts no vote until the longest TTL has passed (prelude.lua). An undo frees the
// nodes that its own attempt won. A node ignores the undo once a later attempt of the claim has requested its vote (promise),
// or a renewal has arrived (made is 0): that attempt, or the holder, may count the node. The votes for earlier attempts are also undone if
// they and the nodes of unknown state together are not a majority (mayHaveWon).
//
// Rising tokens. A token counts only on nodes whose latest token before this lease (before) is lower. The winner's token is
// on a majority, and a node never lowers its latest token. Each earlier holder also had a majority, so one of the winner's
// nodes had the earlier token before, and each later holder needs one of the winner's nodes.
//
// Attempts of one claim take turns (claims.go), so each finds the votes for earlier attempts. If the replies to an earlier
// attempt were lost, it may have won, and the claim has the token of that attempt. An attempt that finds earlier votes waits
// until a majority has the same token, or until that is impossible. If too few of the nodes that have the token answer, the claim
// gets the highest token, which may be later than its former token: a resource does not mistake it for the token of an earlier
// lease, and no other claim has had that token. A renewal sets the token of its grant on nodes again, but only if that token is
// above before. So nodes refuse the token of an earlier lease.
//
// Late requests. A request for a vote that arrives after the end of its attempt holds the node for a TTL, or until the
// release, which the node remembers. Only a later attempt of the claim counts that vote, after its own request to the node. A
// confirmation or an undo has no effect after a later attempt's request, or on another claim. A renewal takes a
// free node only if the node's latest token is not above the lease's token, and the claim has not ended on that node. So no
// other claim has held the name with that node's vote since the lease was granted.
//
// Clock steps. A node whose clock steps forward drops the lease early: see package redislease. A node whose clock steps
// back keeps the lease longer. Tokens need no clocks, unless nodes forget or lose their records
// (docs/providers/redlock.md).

// decision is the state of an attempt.
type decision uint8

const (
	undecided   decision = iota
	ended                // the claim was released
	queued               // it is the turn of a waiter
	agreed               // a majority votes for the claim, and the token is known
	outvoted             // votes for others leave no majority among the nodes that answer
	unreachable          // failed nodes leave no majority
)

// tally is an attempt's view of the votes.
type tally struct {
	votes  []vote
	order  []int // of the servers, the same in all processes
	quorum int
	try    int64
	token  int64 // settled by this attempt, or 0
}

// count returns the number of votes for which the function returns true.
func (t *tally) count(is func(v *vote) bool) (n int) {
	for i := range t.votes {
		if is(&t.votes[i]) {
			n++
		}
	}
	return n
}

// earlier reports whether the node voted for another attempt of the claim, which may have counted the vote.
func (t *tally) earlier(v *vote) bool { return v.isOurs() && v.made != t.try }

// decide returns the attempt's state. If the state is agreed, it also returns the token, and whether a majority
// already has that token.
func (t *tally) decide() (where decision, token int64, won bool) {
	ours, open := t.count((*vote).isOurs), t.count((*vote).isPending)
	if t.count(func(v *vote) bool { return v.choice == claimEnded }) > 0 {
		return ended, 0, false
	}
	if t.first().choice == forWaiter && !t.mayHaveWon() {
		return queued, 0, false
	}
	if token, certain := t.choose(); ours >= t.quorum {
		if !certain && open > 0 {
			return undecided, 0, false
		}
		return agreed, token, t.have(token) >= t.quorum
	}
	switch {
	case t.isContested():
		return outvoted, 0, false
	case ours+open >= t.quorum:
		return undecided, 0, false
	case t.isExcluded():
		return outvoted, 0, false
	case open > 0:
		return undecided, 0, false
	}
	return unreachable, 0, false
}

// isContested reports whether the nodes that answer are a majority and disagree, so that failed nodes are
// not the obstacle. It is false if another attempt of the claim may hold the name: then the claim
// can't be refused.
func (t *tally) isContested() bool {
	return t.count((*vote).isOurs)+t.count((*vote).isAgainst) >= t.quorum && t.count((*vote).isAwaited) == 0 && !t.mayHaveWon()
}

// isExcluded reports whether no majority is left, whatever happens to our own votes.
func (t *tally) isExcluded() bool { return len(t.votes)-t.count((*vote).isAgainst) < t.quorum }

var none vote // the vote of a node that has not answered; never changed

// first returns the vote of the first node that votes: waiters queue on that node, so it
// alone decides which waiter is next. It returns none while an earlier node is awaited.
func (t *tally) first() *vote {
	for _, i := range t.order {
		switch v := &t.votes[i]; {
		case v.isAwaited():
			return &none
		case !v.isUnseen():
			return v
		}
	}
	return &none
}

// have returns the number of nodes that hold the claim under a token.
func (t *tally) have(token int64) int {
	return t.count(func(v *vote) bool { return v.isOurs() && v.token == token })
}

// choose returns the token to agree on: the token of a majority, else the highest. The token is not certain
// while an earlier attempt may have agreed on a token with the votes of nodes that have not answered. Once the
// attempt has settled on a token, choose returns that token.
func (t *tally) choose() (token int64, certain bool) {
	if t.token != 0 {
		return t.token, true
	}
	certain = true
	unseen := t.count((*vote).isUnseen)
	for i := range t.votes {
		v := &t.votes[i]
		if !v.isOurs() {
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

// mayHaveWon reports whether another attempt of the claim may have won: then the votes for this
// attempt belong to its lease.
func (t *tally) mayHaveWon() bool {
	return t.count(func(v *vote) bool { return v.isUnseen() || t.earlier(v) }) >= t.quorum
}
