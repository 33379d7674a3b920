package redlock

import (
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// stance is what a node has said to an attempt.
type stance uint8

const (
	noAnswer  stance = iota // yet
	forUs                   // the claim holds the node
	forOther                // another claim does
	forWaiter               // the node is reserved for a waiter
	forNobody               // the claim was released or broken
	noVote                  // an error, or the node casts none for now
)

// vote is a node's latest answer.
type vote struct {
	stance  stance
	pending bool   // it is waited for
	silent  bool   // it did not answer the last time either
	sent    int64  // in microseconds since the redlock began
	place   string // of the claim in the queue of the node, which is to wake it

	token  int64  // forUs: as the node has it
	made   int64  // the attempt that got the node; 0 if the lease was renewed there
	before int64  // the node's latest token before that
	freed  string // the digest of the ID that was released here last, of a node that was free or is in quarantine

	held   *abstractions.HeldError // forOther and forWaiter
	holder string                  // forOther: the ID of the holder
	err    error                   // noVote
	unsure bool                    // noVote: the request may have been applied
}

// unseen says that nothing is known of what the node has: also one that did nothing
// now, for want of memory or because it has lost its data, may have voted for an
// earlier attempt.
func (v *vote) unseen() bool { return v.pending || v.stance == noVote || v.stance == noAnswer }

func (v *vote) ours() bool { return v.stance == forUs }

func (v *vote) against() bool { return v.stance == forOther || v.stance == forWaiter }

// awaited is a node that is likely to answer.
func (v *vote) awaited() bool { return v.pending && !v.silent }

func (v *vote) isPending() bool { return v.pending }

// voted reads the reply to a vote, and returns the node's clock if it tells.
func (v *vote) voted(r script.Reply, name string) (clock int64) {
	v.stance, v.err, v.held, v.unsure, v.freed = noVote, nil, nil, false, ""
	if text, ok := r.Value.(string); ok {
		return v.counted(text)
	}
	l := r.Read()
	switch l.Status {
	case script.Seen:
		if v.held, v.holder, v.err = l.Refusal(name); v.err == nil {
			if v.stance = forWaiter; v.held.Holder.Held {
				v.stance = forOther
			}
		}
	case script.Ended:
		v.stance = forNobody
	case script.Quarantined:
		v.err, v.freed = &script.QuarantinedError{Left: l.Millis()}, l.Text()
	default:
		v.err = l.Unexpected()
		v.unsure = l.Status != script.Failed && definite(v.err) == nil
	}
	return 0
}

// counted reads a vote for us.
func (v *vote) counted(text string) (clock int64) {
	var l script.List
	for _, number := range [...]*int64{&v.token, &v.made, &v.before, &clock} {
		var digits string
		digits, text, _ = strings.Cut(text, " ")
		*number = l.Parse(digits)
	}
	if l.Bad {
		v.err, v.unsure = script.ErrForm, true
		return 0
	}
	v.stance, v.freed = forUs, text
	return clock
}

// confirmed reads the reply to a confirmation.
func (v *vote) confirmed(r script.Reply, token int64) {
	if r.Done() == nil {
		v.token = token
		return
	}
	l := r.Read() // unless it has lost the lease it still has our vote
	v.stance, v.err, v.unsure = noVote, l.Unexpected(), l.Status != script.Lost
}
