package chaos

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// RenewBatch is the wrapped provider's, with the plan's faults: of the batch as
// a whole (OpRenewBatch), and of its items (OpRenew).
//
// The items are answered together. A batch takes as long as the longest Delay
// of its items. An item that otherwise would have to wait for its failure is
// answered as unknown when the others are there, so that it does not touch
// them; where nothing of a batch is sent, the longest wait decides.
func (p *Provider) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	quiet, err := p.state()
	switch {
	case err != nil:
		return nil, err
	case p.batcher == nil:
		return nil, p.wrap(operation{op: OpRenewBatch}, abstractions.ErrUnsupported)
	case quiet:
		return p.batcher.RenewBatch(ctx, reqs)
	}
	return p.renewBatch(ctx, reqs)
}

func (p *Provider) renewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	return through(ctx, p, operation{op: OpRenewBatch}, func(ctx context.Context) ([]abstractions.RenewResult, error) {
		if ctx.Err() != nil {
			return p.batcher.RenewBatch(ctx, reqs)
		}
		return p.newBatch(reqs).renew(ctx)
	})
}

// batch is a batch of renewals with the fate of each item.
type batch struct {
	p     *Provider
	items []*item
	err   error // about the whole batch, from the wrapped provider
}

// item is one renewal of a batch.
type item struct {
	operation
	req    abstractions.RenewRequest
	fate   fate
	result abstractions.RenewResult
}

func (p *Provider) newBatch(reqs []abstractions.RenewRequest) *batch {
	b := &batch{p: p}
	for _, req := range reqs {
		i := &item{operation: renewal(req), req: req}
		if req.Validate(p.caps) == nil {
			i.fate = p.decide(&i.operation)
		}
		b.items = append(b.items, i)
	}
	return b
}

func (b *batch) renew(ctx context.Context) ([]abstractions.RenewResult, error) {
	if err := b.delays(ctx, false); err != nil {
		return nil, err
	}
	b.begin(ctx)
	b.send(ctx, b.only(item.isSent))
	if again := b.only(item.isSentTwice); len(again) > 0 {
		b.repeat(ctx, again)
	}
	b.finish(ctx)
	if err := b.delays(ctx, true); err != nil {
		return nil, err
	}
	results := make([]abstractions.RenewResult, len(b.items))
	for i, item := range b.items {
		results[i] = item.result
	}
	return results, b.err
}

func (i item) kind() FaultKind {
	if i.fate.main == nil {
		return ""
	}
	return i.fate.main.fault().Kind
}

// isSent reports whether the item reaches the backend while the batch runs.
func (i item) isSent() bool {
	switch i.kind() {
	case "", FaultBroken, FaultAppliedTwice:
		return true
	}
	return i.fate.main.fault().appliesFirst()
}

func (i item) isSentTwice() bool { return i.kind() == FaultAppliedTwice }

// isLost reports whether the caller does not get the backend's answer.
func (i item) isLost() bool { return i.fate.main != nil && i.fate.main.cutsOff() }

func (b *batch) only(is func(item) bool) []*item {
	var chosen []*item
	for _, i := range b.items {
		if is(*i) {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

// begin does what comes before the effect.
func (b *batch) begin(ctx context.Context) {
	for _, i := range b.items {
		if i.fate.main != nil {
			b.p.note(ctx, i.operation, i.fate.main)
		}
		switch i.kind() {
		case FaultBroken:
			if f := i.fate.main.fault(); !f.After {
				b.p.breakLease(ctx, i.name, f)
			}
		case FaultDeliveredLate:
			b.p.deliver(ctx, i.fate.main.delay, func(ctx context.Context) error { _, err := b.p.inner.Renew(ctx, i.req); return err })
		}
	}
}

// send renews some items in one request. An item without an answer stays
// without one, and the error of the request stands for it.
func (b *batch) send(ctx context.Context, items []*item) {
	if len(items) == 0 {
		return
	}
	reqs := make([]abstractions.RenewRequest, len(items))
	for n, i := range items {
		reqs[n] = i.req
	}
	results, err := b.p.batcher.RenewBatch(ctx, reqs)
	if err != nil {
		b.err = err
	}
	for n, i := range items {
		i.result = abstractions.RenewResult{}
		if n < len(results) {
			i.result = results[n]
		}
	}
}

// repeat sends items once more: see twice. One without an answer is unknown, whatever
// the error of the request.
func (b *batch) repeat(ctx context.Context, items []*item) {
	first := make([]abstractions.RenewResult, len(items))
	for n, i := range items {
		first[n] = i.result
	}
	if !b.pause(ctx, items) {
		for _, i := range items {
			i.result = abstractions.RenewResult{Err: b.p.injure(i.operation, i.fate.main, b.p.interrupted(ctx, true))}
		}
		return
	}
	b.send(ctx, items)
	for n, i := range items {
		if first[n].Err == nil && first[n].Grant.ID == "" {
			first[n].Err = abstractions.ErrUnavailable
		}
		if err := both(first[n].Err, i.result.Err); err != nil {
			i.result = abstractions.RenewResult{Err: b.p.injure(i.operation, i.fate.main, err)}
		}
	}
}

// finish does what comes after the effect, and hides the answers that are lost.
func (b *batch) finish(ctx context.Context) {
	sent := b.only(item.isSent)
	for _, i := range sent {
		if f := i.fate.main; i.kind() == FaultBroken && f.fault().After {
			b.p.breakLease(ctx, i.name, f.fault())
		}
		if cut := b.p.cut(i.operation); cut != nil && !i.isLost() {
			b.p.note(ctx, i.operation, cut)
			i.fate.main = cut
		}
	}
	lost := b.only(item.isLost)
	if len(lost) == len(b.items) {
		b.pause(ctx, lost)
	}
	for _, i := range lost {
		err := i.fate.main.fault().failure()
		if ctx.Err() != nil {
			err = b.p.interrupted(ctx, true)
		}
		i.result = abstractions.RenewResult{Err: b.p.injure(i.operation, i.fate.main, err)}
	}
}

// pause waits for as long as the slowest of some items. It reports false if ctx, or the
// wrapper, ended sooner.
func (b *batch) pause(ctx context.Context, items []*item) bool {
	var longest time.Duration
	for _, i := range items {
		longest = max(longest, i.fate.main.wait())
	}
	return b.p.pause(ctx, longest)
}

// delays takes the longest of the items' delays before, or after, the effect.
func (b *batch) delays(ctx context.Context, after bool) error {
	var longest time.Duration
	var slowest *fired
	for _, i := range b.items {
		var all time.Duration
		for _, d := range i.fate.delays {
			if d.fault().After == after {
				b.p.note(ctx, i.operation, d)
				all = sum(all, d.delay)
			}
			if all > longest {
				longest, slowest = all, d
			}
		}
	}
	if !b.p.pause(ctx, longest) {
		return b.p.injure(operation{op: OpRenewBatch}, slowest, b.p.interrupted(ctx, after))
	}
	return nil
}
