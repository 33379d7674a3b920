package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

// stragglerTimeout bounds a release's wait for the remaining servers after a majority has answered.
const stragglerTimeout = 250 * time.Millisecond

// Release succeeds once a majority has released the lease: then no renewal succeeds, and other
// claims can get the name. Nodes in quarantine don't count: they can't free the name.
// Release still waits briefly for the other nodes, unless they usually don't answer. If the
// process exited now, these nodes would keep the lease until it runs out, or until the next
// contender frees the node (see forwardReleases). Such a lease would be an obstacle if another server died.
func (r *Redlock) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	released := false
	p := r.ask(ctx, r.nodeTimeout(r.MaxTTL), func(p *poll) bool {
		n := 0
		for i, reply := range p.of(0) {
			if reply.Done() == nil && r.nodes[i].Quarantine() <= 0 {
				n++
			}
		}
		if n >= r.quorum && !released {
			released = true
			if by := time.Now().Add(stragglerTimeout); by.Before(p.by) {
				p.by = by
			}
		}
		return released && !p.isWaiting()
	}, r.Naming.Keys(req.Name).Release(req.ID))
	defer p.recycle()
	done, errs := read(p, func(reply script.Reply) (bool, error) { return true, reply.Done() })
	if len(done) >= r.quorum {
		return nil
	}
	return r.majorityError(ctx, errs, len(done) > 0)
}

// Break breaks the lease on all nodes. Once a majority has broken it, no renewal gets a majority.
//
// Nodes may disagree about IfToken: a node that voted for a failed attempt, or that has
// missed the latest lease, has another token. A majority decides. On a minority with the token,
// the lease may be broken although Break is refused, which costs the holder only those nodes.
func (r *Redlock) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	p := r.ask(ctx, r.nodeTimeout(r.MaxTTL), (*poll).all, r.Naming.Keys(req.Name).Break(req))
	results, errs := read(p, script.Reply.Broken)
	stale := 0
	for i, err := range errs {
		if errors.Is(err, abstractions.ErrStale) {
			errs[i] = nil
			stale++
		}
	}
	switch {
	case len(results) >= r.quorum:
		return r.mergeBreaks(results), nil
	case len(r.nodes)-stale < r.quorum:
		return abstractions.BreakResult{}, fmt.Errorf("%w: a majority has another token", abstractions.ErrStale)
	}
	return abstractions.BreakResult{}, r.majorityError(ctx, errs, len(results) > 0)
}

// mergeBreaks merges the results of a majority, as records of one claim.
func (r *Redlock) mergeBreaks(results []abstractions.BreakResult) (all abstractions.BreakResult) {
	now, records := time.Now(), make([]abstractions.Record, len(results))
	for i, result := range results {
		records[i] = abstractions.Record{Held: result.WasHeld, Token: result.Token, Now: now, ExpiresAt: now.Add(result.Remaining)}
	}
	record := r.record("", records)
	if all.WasHeld, all.Token = record.Held, record.Token; record.Held {
		all.Remaining = record.ExpiresAt.Sub(now)
	}
	return all
}
