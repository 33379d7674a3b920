package redislease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// stragglers is how long a release waits for the rest of the servers, once it is done.
const stragglers = 250 * time.Millisecond

// release is done once a majority has done it: then nobody can renew the lease, and
// others can get it. Nodes that cast no vote for now don't count: they can't make the
// name free. The others are waited for a little all the same, unless they usually don't
// answer: a process that ends now would leave the lease there until it runs out, or the
// next who asks frees it (see relay), in the way if another server dies.
func (r *redlock) release(ctx context.Context, req abstractions.ReleaseRequest) error {
	k := r.naming.keys(req.Name)
	released := false
	p := r.ask(ctx, r.patience(r.options.maxTTL), func(int) operation { return releaseOp(k, req.ID) }, func(p *poll) bool {
		if !released && p.didVoting() >= r.quorum {
			released = true
			p.hurry(stragglers)
		}
		return released && !p.waits()
	})
	n, errs := p.did()
	switch {
	case n >= r.quorum:
		return nil
	case ctx.Err() != nil:
		return failure(ctx.Err())
	}
	return r.failed(errs, n > 0 || unsure(errs))
}

// breakLease breaks on all nodes. With a majority broken no renewal has one.
//
// Nodes may disagree about IfToken: one that somebody got in vain, or that has missed
// the latest lease, has another token. A majority decides. A minority that has the
// token may have been broken all the same, which takes nothing from the holder but
// those nodes.
func (r *redlock) breakLease(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	k := r.naming.keys(req.Name)
	p := r.ask(ctx, r.patience(r.options.maxTTL), func(int) operation { return breakOp(k, req) }, (*poll).all)
	b := breakage{r: r, errs: make([]error, len(r.nodes))}
	for i, reply := range p.replies {
		b.count(i, reply)
	}
	switch {
	case len(b.results) >= r.quorum:
		return b.result(), nil
	case len(r.nodes)-b.stale < r.quorum:
		return abstractions.BreakResult{}, fmt.Errorf("%w: a majority has another", abstractions.ErrStale)
	case ctx.Err() != nil:
		return abstractions.BreakResult{}, failure(ctx.Err())
	}
	return abstractions.BreakResult{}, r.failed(b.errs, len(b.results) > 0 || unsure(b.errs))
}

// breakage is what the nodes say to a break.
type breakage struct {
	r       *redlock
	results []abstractions.BreakResult
	stale   int
	errs    []error
}

func (b *breakage) count(i int, answer reply) {
	result, err := answer.broken()
	switch {
	case err == nil:
		b.results = append(b.results, result)
	case errors.Is(err, abstractions.ErrStale):
		b.stale++
	default:
		b.errs[i] = err
	}
}

// result is what a majority of results comes to.
func (b *breakage) result() abstractions.BreakResult {
	var held, free []int64 // tokens
	var left []time.Duration
	for _, result := range b.results {
		left = append(left, result.Remaining)
		if result.WasHeld {
			held = append(held, result.Token)
		} else {
			free = append(free, result.Token)
		}
	}
	unheard := len(b.r.nodes) - len(b.results)
	if len(held) == 0 || len(held)+unheard < b.r.quorum {
		return abstractions.BreakResult{Token: b.r.latest(append(held, free...))}
	}
	return abstractions.BreakResult{WasHeld: true, Token: b.r.latest(held), Remaining: b.r.freed(left)}
}

// latest is the token of a name whose nodes have these, of which some may be missing.
// A majority has it, or a higher one: those of nodes that somebody got in vain.
func (r *redlock) latest(tokens []int64) int64 {
	slices.SortFunc(tokens, func(a, b int64) int { return cmp.Compare(b, a) })
	return tokens[max(0, r.quorum-1-(len(r.nodes)-len(tokens)))]
}

// freed is how long it is until a majority is free, of nodes that have so much time
// left.
func (r *redlock) freed(left []time.Duration) time.Duration {
	slices.Sort(left)
	return left[min(r.quorum, len(left))-1]
}
