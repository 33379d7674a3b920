package chaos

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// renewBatch performs a RenewBatch: see Provider.
func (p *Provider) renewBatch(ctx context.Context, o operation, reqs []abstractions.RenewRequest, send send) (any, error) {
	if ctx.Err() != nil {
		return send(ctx, reqs)
	}
	answer, err := p.perform(ctx, o, func(ctx context.Context) (any, error) {
		if ctx.Err() != nil {
			return send(ctx, reqs)
		}
		return p.renewItems(ctx, reqs, send)
	})
	results, _ := answer.([]abstractions.RenewResult)
	p.recordItemOutcomes(reqs, results, err)
	return results, err
}

// item is one renewal of a batch.
type item struct {
	operation
	decision
	req    abstractions.RenewRequest
	result abstractions.RenewResult
}

// is reports whether the item's main fault (never a delay) is of the given kind.
func (i *item) is(kind FaultKind) bool { return i.main != nil && i.main.kind() == kind }

// isSent reports whether the item is sent with the batch.
func (i *item) isSent() bool {
	return i.main == nil || (i.main.hasAnswer() || i.main.appliesFirst()) && !i.is(FaultCustom)
}

func (p *Provider) renewItems(ctx context.Context, reqs []abstractions.RenewRequest, send send) ([]abstractions.RenewResult, error) {
	var items, sent, custom, twice []*item
	for _, req := range reqs {
		i := &item{operation: renewal(req), req: req}
		if p.isValid(req) {
			i.decision = p.decide(&i.operation)
		}
		items = append(items, i)
		if i.isSent() {
			sent = append(sent, i)
		}
		if i.is(FaultCustom) {
			custom = append(custom, i)
		}
		if i.is(FaultAppliedTwice) {
			twice = append(twice, i)
		}
	}
	if err := p.delayItems(ctx, items, false); err != nil {
		return nil, err
	}
	for _, i := range items {
		p.beginItem(ctx, i)
	}
	join := p.customItems(ctx, custom)
	failed := p.sendItems(ctx, sent, send)
	if len(twice) > 0 {
		failed = errors.Join(failed, p.repeatItems(ctx, twice, send))
	}
	join()
	for _, i := range append(sent, custom...) {
		p.endItem(ctx, i)
	}
	p.hideAnswers(ctx, items)
	if err := p.delayItems(ctx, items, true); err != nil {
		return nil, err
	}
	results := make([]abstractions.RenewResult, len(items))
	for n, i := range items {
		results[n] = i.result
	}
	return results, failed
}

// beginItem applies the part of the fault that comes before the effect.
func (p *Provider) beginItem(ctx context.Context, i *item) {
	if i.main == nil || i.is(FaultCustom) { // customItems begins this fault
		return
	}
	p.note(ctx, i.operation, i.main)
	switch f := i.main.fault(); {
	case f.Kind == FaultBroken && !f.After:
		p.breakLease(ctx, i.name, f)
	case f.Kind == FaultDeliveredLate:
		p.deliver(ctx, i.main.delay, func(ctx context.Context) error { _, err := p.inner.Renew(ctx, i.req); return err })
	}
}

// customItems runs the CustomFaults of some items concurrently. join waits for the faults, and
// panics if a fault panicked.
func (p *Provider) customItems(ctx context.Context, items []*item) (join func()) {
	if len(items) == 0 {
		return func() {}
	}
	var all sync.WaitGroup
	panics := make(chan any, len(items))
	for _, i := range items {
		i.fail(p, errNoAnswer) // this error remains if the fault never returns
		all.Go(func() {
			defer func() {
				if value := recover(); value != nil {
					panics <- value
				}
			}()
			var grant any
			grant, i.result.Err = p.inject(ctx, i.operation, i.main, func(ctx context.Context) (any, error) { return p.inner.Renew(ctx, i.req) })
			i.result.Grant, _ = grant.(abstractions.Grant)
		})
	}
	return func() {
		all.Wait()
		if len(panics) > 0 {
			panic(<-panics)
		}
	}
}

// sendItems renews some items in one request, and returns the error of the request. An item
// without an answer gets the zero result.
func (p *Provider) sendItems(ctx context.Context, items []*item, send send) error {
	if len(items) == 0 {
		return nil
	}
	reqs := make([]abstractions.RenewRequest, len(items))
	for n, i := range items {
		reqs[n], i.result = i.req, abstractions.RenewResult{}
	}
	reply, err := send(ctx, reqs)
	results := reply.([]abstractions.RenewResult)
	for n, result := range results[:min(len(results), len(items))] {
		items[n].result = result
	}
	return err
}

// repeatItems sends items once more: see applyTwice. The outcome of an item without an answer is
// unknown, whatever the error of the request.
func (p *Provider) repeatItems(ctx context.Context, items []*item, send send) error {
	first := make([]error, len(items))
	for n, i := range items {
		first[n] = i.result.Err
		if i.result.Err == nil && i.result.Grant.ID == "" {
			first[n] = abstractions.ErrUnavailable
		}
	}
	if !p.pause(ctx, longest(items)) {
		for _, i := range items {
			i.fail(p, p.interrupted(ctx, true))
		}
		return nil
	}
	err := p.sendItems(ctx, items, send)
	for n, i := range items {
		if err := repeatError(mayHaveApplied(first[n]), i.result.Err); err != nil {
			i.fail(p, err)
		}
	}
	return err
}

// endItem applies the part of the fault that comes after the effect. The reply to an item
// is lost if a partition has begun.
func (p *Provider) endItem(ctx context.Context, i *item) {
	if i.is(FaultBroken) && i.main.after() {
		p.breakLease(ctx, i.name, i.main.fault())
	}
	if i.main != nil && !i.main.hasAnswer() {
		return
	}
	if partition := p.partition(i.operation); partition != nil {
		p.note(ctx, i.operation, partition)
		i.main = partition
	}
}

// hideAnswers fails the items whose answers are lost. If all answers are lost, the batch takes as
// long as the longest wait.
func (p *Provider) hideAnswers(ctx context.Context, items []*item) {
	lost := slices.DeleteFunc(slices.Clone(items), func(i *item) bool { return i.main == nil || i.main.hasAnswer() })
	if len(lost) == len(items) {
		p.pause(ctx, longest(lost))
	}
	for _, i := range lost {
		err := i.main.fault().failure()
		if ctx.Err() != nil {
			err = p.interrupted(ctx, true)
		}
		i.fail(p, err)
	}
}

func (i *item) fail(p *Provider, err error) {
	i.result = abstractions.RenewResult{Err: p.injectedError(i.operation, i.main, err)}
}

// longest returns the longest wait of some items.
func longest(items []*item) (d time.Duration) {
	for _, i := range items {
		d = max(d, i.main.wait())
	}
	return d
}

// delayItems waits for the longest of the items' delays, before or after the effect, since the
// items share one request.
func (p *Provider) delayItems(ctx context.Context, items []*item, after bool) error {
	var longest time.Duration
	var slowest *occurrence
	for _, i := range items {
		var all time.Duration
		for _, d := range i.delays {
			if d.after() == after {
				p.note(ctx, i.operation, d)
				all = sum(all, d.delay)
			}
			if all > longest {
				longest, slowest = all, d
			}
		}
	}
	if !p.pause(slowest.waitContext(ctx), longest) {
		return p.injectedError(operation{op: OpRenewBatch}, slowest, p.interrupted(ctx, after))
	}
	return nil
}
