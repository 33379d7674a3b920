package redlock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// tenure is the state of a grant: what it takes to lock a node again that has lost
// the lease. It is never changed.
type tenure struct {
	script.Content
	token, try int64
	// lapses is when the lease may have run out by our clock. After that somebody
	// may have held the name, on nodes that have lost it since, so it is not
	// locked again.
	lapses time.Time
}

func (t *tenure) renewed(sent time.Time, req *abstractions.RenewRequest) *tenure {
	next := *t
	next.lapses = sent.Add(validity(req.TTL))
	if req.Metadata != nil {
		next.Metadata = script.EncodeMetadata(req.Metadata)
	}
	return &next
}

// renewal is one item of a batch.
type renewal struct {
	req      abstractions.RenewRequest
	state    *tenure // nil if it is unknown
	ok, lost int     // nodes
	newer    int     // of those that have lost it, those that only have a newer token
	older    int     // or an older one
	why      abstractions.LostError
	errs     []error // by node: errSilent, or how it failed; nil for others
}

// RenewBatch asks all nodes to renew all claims, and is over when each has been granted or
// refused by a majority: a node that hangs does not keep the others waiting.
func (r *Redlock) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	sent, n := time.Now(), len(r.nodes)
	items, undecided := make([]renewal, len(reqs)), len(reqs)
	errs := slices.Repeat([]error{errSilent}, n*len(reqs))
	shortest := r.MaxTTL
	for i, req := range reqs {
		items[i] = renewal{req: req, errs: errs[i*n : (i+1)*n]}
		if state, _ := req.State.(*tenure); state != nil && state.token == req.Token {
			items[i].state = state
		}
		shortest = min(shortest, req.TTL)
	}
	r.newPoll(ctx, r.patience(shortest), len(reqs)).gather(func(int) []*script.Operation {
		return r.renewals(items, sent)
	}, func(node, first int, ops []*script.Operation) {
		for k, op := range ops {
			if item := &items[first+k]; !item.decided(r) {
				if item.hear(node, op.Reply.Renewed()); item.decided(r) {
					undecided--
				}
			}
		}
	}, func() bool { return undecided == 0 })
	results := make([]abstractions.RenewResult, len(reqs))
	for i := range items {
		results[i].Grant, results[i].Err = items[i].result(ctx, r, sent)
	}
	return results, nil
}

// renewals are the operations for one node.
func (r *Redlock) renewals(items []renewal, now time.Time) []*script.Operation {
	ops, list := make([]script.Operation, len(items)), make([]*script.Operation, len(items))
	for i := range items {
		item := &items[i]
		var content string // takes no node again
		var try int64
		if item.state != nil && now.Before(item.state.lapses) {
			content, try = item.state.renewed(now, &item.req).Text(), item.state.try
		}
		ops[i] = r.Naming.Keys(item.req.Name).Relock(&item.req, content, try)
		list[i] = &ops[i]
	}
	return list
}

// decided says that a majority has renewed the lease, or that so many have lost it that
// there is no majority without them.
func (item *renewal) decided(r *Redlock) bool {
	return item.ok >= r.quorum || len(r.nodes)-item.lost < r.quorum
}

// hear takes a node's answer.
func (item *renewal) hear(node int, err error) {
	item.errs[node] = err
	lost := (*abstractions.LostError)(nil)
	switch {
	case err == nil:
		item.ok++
	case errors.As(err, &lost):
		item.lose(lost)
		item.errs[node] = nil
	}
}

// nodeNewer and nodeOlder are what a node says of a lease that it has lost, if all that it
// knows is a token. Somebody may have got that node alone, in vain, and it may have
// missed the latest lease.
const nodeNewer, nodeOlder = "newer", "older"

// lose takes a node's word that the lease is lost.
func (item *renewal) lose(lost *abstractions.LostError) {
	item.lost++
	reason := lost.Reason
	switch reason {
	case nodeNewer:
		item.newer++
		reason = abstractions.LostExpired
	case nodeOlder:
		item.older++
		reason = abstractions.LostExpired
	}
	item.why.Reason = moreTelling(item.why.Reason, reason)
	item.why.BrokenBy = cmp.Or(item.why.BrokenBy, lost.BrokenBy)
	item.why.BreakReason = cmp.Or(item.why.BreakReason, lost.BreakReason)
}

// result is what has become of the item.
func (item *renewal) result(ctx context.Context, r *Redlock, sent time.Time) (g abstractions.Grant, err error) {
	req := &item.req
	switch {
	case item.ok >= r.quorum && time.Since(sent) >= validity(req.TTL):
		return g, errTooLate
	case item.ok >= r.quorum:
		g = abstractions.Grant{Name: req.Name, ID: req.ID, Token: req.Token, TTL: req.TTL}
		if item.state != nil {
			g.State = item.state.renewed(sent, req)
		}
		return g, nil
	case item.decided(r):
		if item.why.Reason == abstractions.LostExpired && item.newer+item.older >= r.quorum {
			if item.why.Reason = abstractions.LostTaken; item.older > 0 {
				item.why.Reason = abstractions.LostGone
			}
		}
		return g, &item.why
	case ctx.Err() != nil:
		return g, failure.Of(ctx.Err())
	}
	return g, r.failed(item.errs, item.ok > 0 || unsure(item.errs)) // no majority either way
}

// moreTelling returns the reason that explains more: a node that was broken says why
// another one is taken by now.
func moreTelling(a, b abstractions.LostReason) abstractions.LostReason {
	for _, reason := range [...]abstractions.LostReason{abstractions.LostBroken, abstractions.LostTaken, abstractions.LostGone} {
		if a == reason || b == reason {
			return reason
		}
	}
	return b
}
