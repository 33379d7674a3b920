package redlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// contend continues if the votes of other claims will soon be gone, and otherwise gives way.
func (a *attempt) contend(ctx context.Context) error {
	split := len(a.holders()) < a.quorum
	switch {
	case a.awaitsQueueNode(), split && a.first().choice == noAnswer: // the first node decides whose votes stay
		return a.wait(ctx, a.by)
	case a.count((*vote).isAwaited) > 0 && a.hasTime(): // a node may report a release, for example
		return a.wait(ctx, a.optionalUntil)
	case time.Since(a.began) >= 2*a.r.nodeTimeout(a.req.TTL): // the attempt may have waited for nodes that don't answer
	case a.forwardReleases():
		return nil
	case split && a.first().isOurs():
		// No claim has a majority, and ours has the first node that answers: the others give way.
		// Pause for about a round trip, more with each round, to get out of step with the competitors.
		trip := min(max(time.Since(a.roundStart), 100*time.Microsecond), 5*time.Millisecond)
		a.rounds++
		select {
		case <-time.After(trip/2 + rand.N(trip*time.Duration(min(a.rounds, 4)))):
		case <-ctx.Done():
			return failure.Of(ctx.Err())
		}
		a.callVotes((*vote).isAgainst)
		return nil
	}
	return a.refusal()
}

// holders returns the records of whichever other claim holds the most nodes.
func (a *attempt) holders() []abstractions.Record {
	var records []abstractions.Record
	for i := range a.votes {
		if v := &a.votes[i]; v.choice == forOther {
			records = append(records, v.held.Holder)
		}
	}
	return ofOneClaim(records)
}

// awaitsQueueNode reports whether the claim is a waiter and the node that must wake it
// has not answered yet. The name may have been released on that node just before the
// request, and then no wake-up follows.
func (a *attempt) awaitsQueueNode() bool {
	return a.count(func(v *vote) bool { return v.pending && v.place != "" }) > 0
}

// forwardReleases finds nodes that still hold a claim which another node has released. It forwards the
// release to these nodes, and asks them for their votes again: the release may be in flight, or lost. It
// reports whether there are such nodes.
func (a *attempt) forwardReleases() (found bool) {
	for i := range a.votes {
		v := &a.votes[i]
		if v.choice != forOther || a.asked[i] > 0 {
			continue
		}
		digest := script.Digest(v.holder)
		if a.count(func(o *vote) bool { return (o.isOurs() || o.choice == noVote) && o.freed == digest }) > 0 {
			v.choice, found = noAnswer, true
			a.setTime()
			a.put(i, a.keys.Release(v.holder))
		}
	}
	return found
}

// refusal returns the error that describes the holder.
func (a *attempt) refusal() error {
	holders := a.holders()
	if len(holders) >= a.quorum {
		// Nodes that have not answered may have dropped the lease already, or be the last to
		// drop the lease: assume that half are free. Round an odd number up: few nodes receive
		// a lease after its holder has a majority.
		free := a.count((*vote).isOurs) + (a.count((*vote).isPending)+1)/2
		return &abstractions.HeldError{Holder: a.r.mergedHolder(holders, free)}
	}
	// The vote is split, or too few nodes have answered to determine the holder.
	held := &abstractions.HeldError{Holder: abstractions.Record{Name: a.req.Name}}
	if len(holders) > 0 && len(holders)+a.count((*vote).isUnseen) >= a.quorum {
		held.Holder = holders[0]
		held.Holder.Unconfirmed = true
	}
	trip := time.Since(a.roundStart)
	held.RetryAfter = time.Millisecond + trip/2 + rand.N(4*trip+time.Millisecond)
	return held
}
