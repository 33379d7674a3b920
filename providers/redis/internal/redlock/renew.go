package redlock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/batch"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/node"
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

func (a *attempt) tenure(token int64) *tenure {
	return &tenure{Content: a.claim.Content, token: token, try: a.try, lapses: a.began.Add(validity(a.req.TTL))}
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
	req       abstractions.RenewRequest
	state     *tenure // nil if it is unknown
	ok, lost  int     // nodes
	newer     int     // of those that have lost it, those that only have a newer token
	older     int     // or an older one
	why       abstractions.LostError
	errs      []error // by node: errSilent, or how it failed; nil for others
	undecided bool
}

// RenewBatch asks all nodes to renew all claims, and is over when each has been granted or
// refused by a majority: a node that hangs does not keep the others waiting.
func (r *Redlock) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	sent := time.Now()
	n := len(r.nodes)
	b := &renewals{r: r, items: make([]renewal, len(reqs)), open: len(reqs)}
	errs := slices.Repeat([]error{errSilent}, n*len(reqs))
	shortest := r.MaxTTL
	for i, req := range reqs {
		state, _ := req.State.(*tenure)
		if state != nil && state.token != req.Token {
			state = nil
		}
		b.items[i] = renewal{req: req, state: state, undecided: true, errs: errs[i*n : (i+1)*n]}
		shortest = min(shortest, req.TTL)
	}
	if len(reqs) > 0 {
		b.run(ctx, r.patience(shortest), sent)
	}
	results := make([]abstractions.RenewResult, len(reqs))
	for i := range b.items {
		results[i] = b.result(ctx, i, sent)
	}
	return results, nil
}

// renewals are the items of a batch, under way.
type renewals struct {
	r     *Redlock
	items []renewal
	open  int // undecided
}

// run counts the answers until all is decided or the time is over.
func (b *renewals) run(ctx context.Context, patience time.Duration, sent time.Time) {
	n := len(b.r.nodes)
	chunks := (len(b.items) + batch.MaxOperations - 1) / batch.MaxOperations
	done := make(chan *node.Request, n*chunks)
	p := b.r.newPoll(ctx, patience)
	waiting := 0
	for i := range n {
		ops := b.operations(sent)
		for chunk := range chunks {
			part := ops[chunk*batch.MaxOperations : min((chunk+1)*batch.MaxOperations, len(ops))]
			q := &node.Request{Ops: part, Context: ctx, By: p.by, Tag: i*chunks + chunk, Done: done}
			if err := b.r.nodes[i].Start(q); err != nil {
				for k := range part {
					b.count(chunk*batch.MaxOperations+k, i, script.Reply{Err: err})
				}
				continue
			}
			waiting++
		}
	}
	timer := time.NewTimer(time.Until(p.by))
	defer timer.Stop()
	silent := make([]bool, n)
	for i := range silent {
		silent[i] = true
	}
	for waiting > 0 && b.open > 0 {
		select {
		case q := <-done:
			waiting--
			i, chunk := q.Tag/chunks, q.Tag%chunks
			silent[i] = false
			b.hear(i, chunk, q)
		case <-timer.C:
			for i := range silent {
				if silent[i] && !p.short {
					b.r.heard(i, false)
				}
			}
			return
		case <-ctx.Done():
			return
		}
	}
}

// operations are those for one node.
func (b *renewals) operations(now time.Time) []*script.Operation {
	ops, list := make([]script.Operation, len(b.items)), make([]*script.Operation, len(b.items))
	for i := range b.items {
		item := &b.items[i]
		var content string // takes no node again
		var try int64
		if item.state != nil && now.Before(item.state.lapses) {
			content, try = item.state.renewed(now, &item.req).Text(), item.state.try
		}
		ops[i] = b.r.Naming.Keys(item.req.Name).Relock(&item.req, content, try)
		list[i] = &ops[i]
	}
	return list
}

func (b *renewals) hear(from, chunk int, q *node.Request) {
	for i, op := range q.Ops {
		b.count(chunk*batch.MaxOperations+i, from, op.Reply)
	}
	err := q.Ops[0].Reply.Err
	b.r.heard(from, err == nil || certainty(err) != nil)
}

// count counts a node's answer for an item. A majority decides; it is lost once so
// many have lost it that there is no majority without them.
func (b *renewals) count(i, from int, answer script.Reply) {
	item := &b.items[i]
	if !item.undecided {
		return
	}
	err := answer.Renewed()
	item.errs[from] = err
	lost := (*abstractions.LostError)(nil)
	switch {
	case err == nil:
		item.ok++
	case errors.As(err, &lost):
		item.lose(lost)
		item.errs[from] = nil
	}
	if item.ok >= b.r.quorum || len(b.r.nodes)-item.lost < b.r.quorum {
		item.undecided = false
		b.open--
	}
}

// nodeNewer and nodeOlder are what a node says of a lease that it has lost, or has with
// another token, if all that it knows is a token. Somebody may have got that node alone,
// in vain, and it may have missed the latest lease.
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

// ended is the error for a loss.
func (item *renewal) ended(quorum int) error {
	if item.why.Reason == abstractions.LostExpired && item.newer+item.older >= quorum {
		if item.why.Reason = abstractions.LostTaken; item.older > 0 {
			item.why.Reason = abstractions.LostGone
		}
	}
	return &item.why
}

// result is an item's.
func (b *renewals) result(ctx context.Context, i int, sent time.Time) abstractions.RenewResult {
	item := &b.items[i]
	req := &item.req
	switch {
	case item.ok >= b.r.quorum && time.Since(sent) >= validity(req.TTL):
		return abstractions.RenewResult{Err: errTooLate}
	case item.ok >= b.r.quorum:
		grant := abstractions.Grant{Name: req.Name, ID: req.ID, Token: req.Token, TTL: req.TTL}
		if item.state != nil {
			grant.State = item.state.renewed(sent, req)
		}
		return abstractions.RenewResult{Grant: grant}
	case !item.undecided:
		return abstractions.RenewResult{Err: item.ended(b.r.quorum)}
	case ctx.Err() != nil:
		return abstractions.RenewResult{Err: failure.Of(ctx.Err())}
	}
	return abstractions.RenewResult{Err: b.r.failed(item.errs, item.ok > 0 || unsure(item.errs))} // no majority either way
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
