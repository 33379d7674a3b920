package redlock

import (
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// choice is a node's answer to an attempt.
type choice uint8

const (
	noAnswer   choice = iota // no answer yet
	forUs                    // the claim holds the node
	forOther                 // another claim holds the node
	forWaiter                // the node is reserved for a waiter
	claimEnded               // the claim was released or broken
	noVote                   // an error, or the node casts no vote for now
)

// vote is a node's latest answer.
type vote struct {
	choice  choice
	pending bool   // the attempt waits for the answer
	silent  bool   // the node did not answer the previous request
	sent    int64  // time of the request, in microseconds since this Redlock was made
	place   string // the claim's place in the queue of the node that should wake the claim

	token  int64  // forUs: the token on the node
	made   int64  // the attempt that won the node; 0 once the lease was renewed on the node
	before int64  // the node's latest token before this lease
	freed  string // the digest of the ID released last on the node, if the node was free or is in quarantine

	held   *abstractions.HeldError // forOther and forWaiter
	holder string                  // forOther: the ID of the holder
	err    error                   // noVote
	unsure bool                    // noVote: the request may have been applied
}

// isUnseen reports whether the state of the node is unknown. A node that did nothing this time,
// because it has no memory left or has lost its data, may have voted for an earlier attempt.
func (v *vote) isUnseen() bool { return v.pending || v.choice == noVote || v.choice == noAnswer }

func (v *vote) isOurs() bool { return v.choice == forUs }

func (v *vote) isAgainst() bool { return v.choice == forOther || v.choice == forWaiter }

// isAwaited reports whether the answer is pending and the node has not been silent.
func (v *vote) isAwaited() bool { return v.pending && !v.silent }

func (v *vote) isPending() bool { return v.pending }

// readVote reads the reply to a vote, and returns the node's clock, or 0 if it is unknown.
func (v *vote) readVote(r script.Reply, name string) (clock int64) {
	v.choice, v.err, v.held, v.unsure, v.freed = noVote, nil, nil, false, ""
	if text, ok := r.Value.(string); ok {
		return v.readOwnVote(text)
	}
	l := r.Read()
	switch l.Status {
	case script.Seen:
		if v.held, v.holder, v.err = l.Refusal(name); v.err == nil {
			if v.choice = forWaiter; v.held.Holder.Held {
				v.choice = forOther
			}
		}
	case script.Ended:
		v.choice = claimEnded
	case script.Quarantined:
		v.err, v.freed = &script.QuarantinedError{Left: l.Millis()}, l.Text()
	default:
		v.err = l.Unexpected()
		v.unsure = l.Status != script.Failed && definite(v.err) == nil
	}
	return 0
}

// readOwnVote reads a vote for the claim.
func (v *vote) readOwnVote(text string) (clock int64) {
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
	v.choice, v.freed = forUs, text
	return clock
}

// readConfirmation reads the reply to a confirmation.
func (v *vote) readConfirmation(r script.Reply, token int64) {
	if r.Done() == nil {
		v.token = token
		return
	}
	l := r.Read() // a node that has not lost the lease still holds our vote
	v.choice, v.err, v.unsure = noVote, l.Unexpected(), l.Status != script.Lost
}
