package redlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// contend goes on where somebody's votes will be gone in a moment, and otherwise gives way.
func (a *attempt) contend(ctx context.Context) error {
	split := len(a.holders()) < a.quorum
	switch {
	case a.queueAsked(), split && a.first().stance == noAnswer: // whose votes will stay, says the first node
		return a.wait(ctx, a.by)
	case a.count((*vote).awaited) > 0 && a.hasTime(): // whether it was released, say
		return a.wait(ctx, a.grace)
	case time.Since(a.began) >= 2*a.r.patience(a.req.TTL): // it has maybe waited for nodes that don't answer
	case a.relay():
		return nil
	case split && a.first().ours():
		// Nobody has a majority, and the claim has the first node that answers: the others give way.
		// Pause for about a round trip, more with each round, so that those who compete get out of step.
		trip := min(max(time.Since(a.asking), 100*time.Microsecond), 5*time.Millisecond)
		a.rounds++
		select {
		case <-time.After(trip/2 + rand.N(trip*time.Duration(min(a.rounds, 4)))):
		case <-ctx.Done():
			return failure.Of(ctx.Err())
		}
		a.callVotes((*vote).against)
		return nil
	}
	return a.refusal()
}

// holders are the records of the claim that holds most nodes, of those that others hold.
func (a *attempt) holders() []abstractions.Record {
	var records []abstractions.Record
	for i := range a.votes {
		if v := &a.votes[i]; v.stance == forOther {
			records = append(records, v.held.Holder)
		}
	}
	return ofOneClaim(records)
}

// queueAsked says that the claim is a waiter and the node on which it is to be woken
// has not answered yet: that may have been released just before it was asked, so
// that nobody will wake the claim.
func (a *attempt) queueAsked() bool {
	return a.count(func(v *vote) bool { return v.pending && v.place != "" }) > 0
}

// relay passes on the release of claims, whose holders have given them up, to nodes that have not
// heard of it, and asks these again: it may be just on its way, or lost. It says whether there are any.
func (a *attempt) relay() (found bool) {
	for i := range a.votes {
		v := &a.votes[i]
		if v.stance != forOther || a.asked[i] > 0 {
			continue
		}
		digest := script.Digest(v.holder)
		if a.count(func(o *vote) bool { return (o.ours() || o.stance == noVote) && o.freed == digest }) > 0 {
			v.stance, found = noAnswer, true
			a.setTime()
			a.put(i, a.keys.Release(v.holder))
		}
	}
	return found
}

// refusal says who is in the way.
func (a *attempt) refusal() error {
	holders := a.holders()
	if len(holders) >= a.quorum {
		// Nodes that have not answered may have let go already, or be the last to do so:
		// that they are half and half is the least wrong. Of an odd number more have: a node
		// that heard of the lease after its holder did is one of few.
		free := a.count((*vote).ours) + (a.count((*vote).isPending)+1)/2
		return &abstractions.HeldError{Holder: a.r.merged(holders, free)}
	}
	// A split vote, or too few answers to tell.
	held := &abstractions.HeldError{Holder: abstractions.Record{Name: a.req.Name}}
	if len(holders) > 0 && len(holders)+a.count((*vote).unseen) >= a.quorum {
		held.Holder = holders[0]
		held.Holder.Unconfirmed = true
	}
	trip := time.Since(a.asking)
	held.RetryAfter = time.Millisecond + trip/2 + rand.N(4*trip+time.Millisecond)
	return held
}
