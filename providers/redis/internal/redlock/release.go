package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
)

// stragglers is how long a release waits for the rest of the servers, once it is done.
const stragglers = 250 * time.Millisecond

// Release is done once a majority has done it: then nobody can renew the lease, and
// others can get it. Nodes that cast no vote for now don't count: they can't make the
// name free. The others are waited for a little all the same, unless they usually don't
// answer: a process that ends now would leave the lease there until it runs out, or the
// next who asks frees it (see relay), in the way if another server dies.
func (r *Redlock) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	released := false
	p := r.ask(ctx, r.patience(r.MaxTTL), r.Naming.Keys(req.Name).Release(req.ID), func(p *poll) bool {
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
		return failure.Of(ctx.Err())
	}
	return r.failed(errs, n > 0 || unsure(errs))
}

// Break breaks on all nodes. With a majority broken no renewal has one.
//
// Nodes may disagree about IfToken: one that somebody got in vain, or that has missed
// the latest lease, has another token. A majority decides. A minority that has the
// token may have been broken all the same, which takes nothing from the holder but
// those nodes.
func (r *Redlock) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	p := r.ask(ctx, r.patience(r.MaxTTL), r.Naming.Keys(req.Name).Break(req), (*poll).all)
	var results []abstractions.BreakResult
	stale, errs := 0, make([]error, len(r.nodes))
	for i, reply := range p.replies {
		result, err := reply.Broken()
		switch {
		case err == nil:
			results = append(results, result)
		case errors.Is(err, abstractions.ErrStale):
			stale++
		default:
			errs[i] = err
		}
	}
	switch {
	case len(results) >= r.quorum:
		return r.broken(results), nil
	case len(r.nodes)-stale < r.quorum:
		return abstractions.BreakResult{}, fmt.Errorf("%w: a majority has another", abstractions.ErrStale)
	case ctx.Err() != nil:
		return abstractions.BreakResult{}, failure.Of(ctx.Err())
	}
	return abstractions.BreakResult{}, r.failed(errs, len(results) > 0 || unsure(errs))
}

// broken is what a majority of results comes to.
func (r *Redlock) broken(results []abstractions.BreakResult) abstractions.BreakResult {
	var held, free []int64 // tokens
	var left []time.Duration
	for _, result := range results {
		left = append(left, result.Remaining)
		if result.WasHeld {
			held = append(held, result.Token)
		} else {
			free = append(free, result.Token)
		}
	}
	unheard := len(r.nodes) - len(results)
	if len(held) == 0 || len(held)+unheard < r.quorum {
		return abstractions.BreakResult{Token: r.latest(append(held, free...))}
	}
	slices.Sort(left) // until a majority is free
	return abstractions.BreakResult{WasHeld: true, Token: r.latest(held), Remaining: left[min(r.quorum, len(left))-1]}
}

// latest is the token of a name whose nodes have these, of which some may be missing.
// A majority has it, or a higher one: those of nodes that somebody got in vain.
func (r *Redlock) latest(tokens []int64) int64 {
	slices.SortFunc(tokens, func(a, b int64) int { return cmp.Compare(b, a) })
	return tokens[max(0, r.quorum-1-(len(r.nodes)-len(tokens)))]
}
