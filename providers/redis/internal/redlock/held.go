package redlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// outvoted goes on where somebody's votes will be gone in a moment, and otherwise
// ends the attempt.
func (a *attempt) outvoted(ctx context.Context) error {
	holder, _ := a.holder()
	switch {
	case a.queueAsked():
		return a.next(ctx, a.by)
	case a.count((*vote).awaited) > 0 && a.hasTime(): // whether it was released, say
		return a.next(ctx, a.grace)
	case a.early() && a.relay():
	case holder == "" && a.persists():
	default:
		return a.refused()
	}
	if err := a.rest(ctx); err != nil {
		return err
	}
	a.callVotes((*vote).against)
	return nil
}

// holder is the claim that a majority names, and what they say of it.
func (a *attempt) holder() (id string, records []abstractions.Record) {
	for i := range a.votes {
		if a.votes[i].stance != forOther {
			continue
		}
		id, records = a.votes[i].held.Holder.ID, records[:0]
		for j := range a.votes {
			if v := &a.votes[j]; v.stance == forOther && v.held.Holder.ID == id {
				records = append(records, v.held.Holder)
			}
		}
		if len(records) >= a.quorum {
			return id, records
		}
	}
	return "", nil
}

// persists says whether to ask again after a split vote, in which nobody has a
// majority. The claim that has the first node that answers waits for the others to give
// way, which they do soon: their votes may be those of an attempt that is being undone.
func (a *attempt) persists() bool {
	const soon = 2 // rounds
	if a.count((*vote).ours) == 0 {
		return false
	}
	for k := range a.votes {
		switch v := a.at(k); {
		case v.stance == forOther:
			return a.rounds < soon && !a.elsewhere()
		case v.ours():
			return a.early()
		}
	}
	return false
}

// elsewhere says that somebody may have a majority of which we don't hear all.
func (a *attempt) elsewhere() bool {
	hidden := a.count((*vote).unseen)
	for i := range a.votes {
		if a.votes[i].stance != forOther {
			continue
		}
		same := a.count(func(v *vote) bool {
			return v.stance == forOther && v.held.Holder.ID == a.votes[i].held.Holder.ID
		})
		if same+hidden >= a.quorum {
			return true
		}
	}
	return false
}

// early bounds what an attempt does to be done with others that are in the way, after it
// has maybe waited for nodes that don't answer.
func (a *attempt) early() bool { return time.Since(a.began) < 2*a.r.patience(a.req.TTL) }

// queueAsked says that the claim is a waiter and the node on which it is to be woken
// has not answered yet: that may have been released just before it was asked, so
// that nobody will wake the claim.
func (a *attempt) queueAsked() bool {
	for i := range a.votes {
		if a.votes[i].pending && a.channels[i] != "" {
			return true
		}
	}
	return false
}

// relay passes on the release of claims, whose holders have given them up, to nodes that have not
// heard of it: it may be just on its way, or lost. It says whether there are any.
func (a *attempt) relay() (found bool) {
	for i := range a.votes {
		if v := &a.votes[i]; v.stance == forOther && a.wasReleased(v.held.Holder.ID) {
			a.post(i, a.keys.Release(v.held.Holder.ID))
			found = true
		}
	}
	return found
}

// wasReleased says that a node has done the release of a claim.
func (a *attempt) wasReleased(id string) bool {
	return a.count(func(v *vote) bool { return (v.ours() || v.stance == noVote) && v.freed == id }) > 0
}

// refused gives way, and says to whom.
func (a *attempt) refused() error {
	if !a.undo(true) && !a.excluded() {
		return a.failed(true)
	}
	if where, _, _ := a.decide(); where == queued {
		return a.turn()
	}
	if id, records := a.holder(); id != "" {
		// Nodes that have not answered may have let go already, or be the last to do so:
		// that they are half and half is the least wrong. Of an odd number more have: a node
		// that heard of the lease after its holder did is one of few.
		free := a.count((*vote).ours) + (a.count((*vote).isPending)+1)/2
		return &abstractions.HeldError{Holder: a.r.merged(records, free)}
	}
	// A split vote, or too few answers to tell.
	held := &abstractions.HeldError{Holder: abstractions.Record{Name: a.req.Name}}
	for i := range a.votes {
		if v := &a.votes[i]; v.stance == forOther && a.elsewhere() {
			held.Holder = v.held.Holder
			held.Holder.Unconfirmed = true
			break
		}
	}
	trip := time.Since(a.asking)
	held.RetryAfter = time.Millisecond + trip/2 + rand.N(4*trip+time.Millisecond)
	return held
}

// turn is the error for a name that is reserved.
func (a *attempt) turn() error {
	for k := range a.votes {
		if v := a.at(k); v.stance == forWaiter {
			return v.held
		}
	}
	return &abstractions.HeldError{Holder: abstractions.Record{Name: a.req.Name}}
}
