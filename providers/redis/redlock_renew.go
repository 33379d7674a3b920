package redislease

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/batch"
)

// tenure is the state of a grant: what it takes to lock a node again that has lost
// the lease. It is never changed.
type tenure struct {
	content
	token, try int64
	// lapses is when the lease may have run out by our clock. After that somebody
	// may have held the name, on nodes that have lost it since, so it is not
	// locked again.
	lapses time.Time
}

func (a *attempt) tenure(token int64) *tenure {
	return &tenure{content: a.claim.content, token: token, try: a.try, lapses: a.began.Add(validity(a.req.TTL))}
}

func (t *tenure) renewed(sent time.Time, req *abstractions.RenewRequest) *tenure {
	next := *t
	next.lapses = sent.Add(validity(req.TTL))
	if req.Metadata != nil {
		next.metadata = encodeMetadata(req.Metadata)
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

// renew asks all nodes to renew all claims, and is over when each has been granted or
// refused by a majority: a node that hangs does not keep the others waiting.
func (r *redlock) renew(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	sent := time.Now()
	n := len(r.nodes)
	b := &renewals{r: r, items: make([]renewal, len(reqs)), open: len(reqs), errs: slices.Repeat([]error{errSilent}, n*len(reqs))}
	shortest := r.options.maxTTL
	for i, req := range reqs {
		state, _ := req.State.(*tenure)
		if state != nil && state.token != req.Token {
			state = nil
		}
		b.items[i] = renewal{req: req, state: state, undecided: true, errs: b.errs[i*n : (i+1)*n]}
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
	r     *redlock
	items []renewal
	open  int // undecided
	errs  []error
}

// run counts the answers until all is decided or the time is over.
func (b *renewals) run(ctx context.Context, patience time.Duration, sent time.Time) {
	n := len(b.r.nodes)
	chunks := (len(b.items) + batch.MaxOperations - 1) / batch.MaxOperations
	done := make(chan *request, n*chunks)
	p := b.r.newPoll(ctx, patience)
	waiting := 0
	for node := range n {
		ops := b.operations(sent)
		for chunk := range chunks {
			part := ops[chunk*batch.MaxOperations : min((chunk+1)*batch.MaxOperations, len(ops))]
			q := &request{Ops: part, Context: ctx, By: p.by, Tag: node*chunks + chunk, Done: done}
			if err := b.r.nodes[node].start(q); err != nil {
				b.failed(node, chunk, len(part), err)
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
			node, chunk := q.Tag/chunks, q.Tag%chunks
			silent[node] = false
			b.hear(node, chunk, q)
		case <-timer.C:
			for node := range silent {
				if silent[node] && !p.short {
					b.r.heard(node, false)
				}
			}
			return
		case <-ctx.Done():
			return
		}
	}
}

// operations are those for one node.
func (b *renewals) operations(now time.Time) []*operation {
	ops, list := make([]operation, len(b.items)), make([]*operation, len(b.items))
	for i := range b.items {
		item := &b.items[i]
		var state *tenure // takes no node again
		if item.state != nil && now.Before(item.state.lapses) {
			state = item.state.renewed(now, &item.req)
		}
		ops[i] = relockOp(b.r.naming.keys(item.req.Name), &item.req, state)
		list[i] = &ops[i]
	}
	return list
}

func (b *renewals) hear(node, chunk int, q *request) {
	for i, op := range q.Ops {
		b.count(chunk*batch.MaxOperations+i, node, op.reply)
	}
	err := q.Ops[0].reply.err
	b.r.heard(node, err == nil || certainty(err) != nil)
}

func (b *renewals) failed(node, chunk, n int, err error) {
	for i := range n {
		b.count(chunk*batch.MaxOperations+i, node, reply{err: err})
	}
}

// count counts a node's answer for an item. A majority decides; it is lost once so
// many have lost it that there is no majority without them.
func (b *renewals) count(i, node int, answer reply) {
	item := &b.items[i]
	if !item.undecided {
		return
	}
	err := answer.renewed()
	item.errs[node] = err
	lost := (*abstractions.LostError)(nil)
	switch {
	case err == nil:
		item.ok++
	case errors.As(err, &lost):
		item.lose(lost)
		item.errs[node] = nil
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
		return abstractions.RenewResult{Err: failure(ctx.Err())}
	}
	return abstractions.RenewResult{Err: b.unknown(item)}
}

// unknown is the error for an item on which there is no majority either way.
func (b *renewals) unknown(item *renewal) error {
	return b.r.failed(item.errs, item.ok > 0 || unsure(item.errs))
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
