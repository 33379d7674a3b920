package redlock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// grantState is the state of a grant: the data that restores the lease on a node without the lease.
// It is immutable.
type grantState struct {
	script.Content
	token, try int64
	// validUntil is the time, by our clock, from which the lease may have run out. Another claim
	// may then have held the name on nodes that have since lost that claim, so a renewal no longer
	// restores the lease.
	validUntil time.Time
}

func (t *grantState) afterRenewal(sent time.Time, req *abstractions.RenewRequest) *grantState {
	next := *t
	next.validUntil = sent.Add(validity(req.TTL))
	if req.Metadata != nil {
		next.Metadata = script.EncodeMetadata(req.Metadata)
	}
	return &next
}

// Renew sends a batch with one request.
func (r *Redlock) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	results, err := r.RenewBatch(ctx, []abstractions.RenewRequest{req})
	if err != nil {
		return abstractions.Grant{}, err
	}
	return results[0].Grant, results[0].Err
}

// RenewBatch sends all renewals to all nodes, and returns when a majority has granted or refused
// each of them: a node that hangs does not delay the others.
func (r *Redlock) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	sent, shortest := time.Now(), r.MaxTTL
	ops, states := make([]script.Operation, len(reqs)), make([]*grantState, len(reqs)) // nil: unknown
	undecided := make([]int, len(reqs))
	for i := range reqs {
		req := &reqs[i]
		var content string // if empty, the lease is restored on no node
		var try int64
		if state, _ := req.State.(*grantState); state != nil && state.token == req.Token {
			if states[i] = state.afterRenewal(sent, req); sent.Before(state.validUntil) {
				content, try = states[i].Text(), state.try
			}
		}
		ops[i] = r.Naming.Keys(req.Name).Relock(req, content, try)
		undecided[i], shortest = i, min(shortest, req.TTL)
	}
	p := r.ask(ctx, r.nodeTimeout(shortest), func(p *poll) bool {
		undecided = slices.DeleteFunc(undecided, func(i int) bool { return r.renewal(p.of(i)).isDecided(r) })
		return len(undecided) == 0
	}, ops...)
	results := make([]abstractions.RenewResult, len(reqs))
	for i, req := range reqs {
		err := r.renewal(p.of(i)).result(ctx, r, p.of(i))
		if err == nil && time.Since(sent) >= validity(req.TTL) {
			err = errTooLate
		}
		if results[i].Err = err; err != nil {
			continue
		}
		results[i].Grant = abstractions.Grant{Name: req.Name, ID: req.ID, Token: req.Token, TTL: req.TTL}
		if states[i] != nil {
			results[i].Grant.State = states[i]
		}
	}
	return results, nil
}

// renewal counts the nodes' answers for one item of a batch.
type renewal struct {
	ok, lost int // nodes
	reasons  map[abstractions.LostReason]int
	broken   abstractions.LostError // BrokenBy and BreakReason of the first node that has them
}

// nodeNewer and nodeOlder are the reasons of a node that has lost the lease and has only a token. The node may have voted
// for a failed attempt, or it may have missed the latest lease.
const nodeNewer, nodeOlder = "newer", "older"

func (r *Redlock) renewal(replies []script.Reply) (item renewal) {
	for _, reply := range replies {
		lost := (*abstractions.LostError)(nil)
		switch err := reply.Renewed(); {
		case err == nil:
			item.ok++
		case errors.As(err, &lost):
			if item.reasons == nil {
				item.reasons = map[abstractions.LostReason]int{}
			}
			item.lost++
			item.reasons[lost.Reason]++
			item.broken.BrokenBy = cmp.Or(item.broken.BrokenBy, lost.BrokenBy)
			item.broken.BreakReason = cmp.Or(item.broken.BreakReason, lost.BreakReason)
		}
	}
	return item
}

// isDecided reports whether a majority has renewed the lease, or so many nodes have lost the
// lease that no majority is left.
func (item renewal) isDecided(r *Redlock) bool {
	return item.ok >= r.quorum || len(r.nodes)-item.lost < r.quorum
}

// result returns the item's error; nil if a majority has renewed the lease.
func (item renewal) result(ctx context.Context, r *Redlock, replies []script.Reply) error {
	switch {
	case item.ok >= r.quorum:
		return nil
	case item.isDecided(r):
		item.broken.Reason = item.reason(r.quorum)
		return &item.broken
	}
	errs := make([]error, len(replies)) // of nodes that have not lost the lease
	for i, reply := range replies {
		if err := reply.Renewed(); !errors.Is(err, abstractions.ErrLost) {
			errs[i] = err
		}
	}
	return r.majorityError(ctx, errs, item.ok > 0) // no majority either way
}

// reason returns the reason that explains the most: a break on one node explains why another claim now holds another
// node.
func (item renewal) reason(quorum int) abstractions.LostReason {
	for _, reason := range [...]abstractions.LostReason{abstractions.LostBroken, abstractions.LostTaken, abstractions.LostGone} {
		if item.reasons[reason] > 0 {
			return reason
		}
	}
	switch {
	case item.reasons[nodeNewer]+item.reasons[nodeOlder] < quorum:
		return abstractions.LostExpired
	case item.reasons[nodeOlder] > 0:
		return abstractions.LostGone
	}
	return abstractions.LostTaken
}
