package batch

import (
	"context"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// caller has the request of a waiting caller, and the channel on which the request is returned.
type caller[T Operation] struct {
	Request[T]
	done  chan *Request[T]
	timer *time.Timer
}

func newCaller[T Operation](ctx context.Context, size int) *caller[T] {
	w := &caller[T]{done: make(chan *Request[T], 1), timer: time.NewTimer(fastAnswer)}
	by, _ := ctx.Deadline()
	w.Request = Request[T]{Ops: make([]T, 0, size), Context: ctx, By: by, Done: func(r *Request[T]) { w.done <- r }}
	return w
}

// await returns when the request is done, or ctx has ended. Most requests are done soon, so it rarely calls ctx.Done:
// the first call of Done allocates a channel in many contexts, and a timer in some.
func (w *caller[T]) await(ctx context.Context, b *Batcher[T]) error {
	if !b.slow.Load() {
		w.timer.Reset(min(fastAnswer, time.Until(w.By)))
		select {
		case <-w.done:
			w.timer.Stop()
			return nil
		case <-w.timer.C:
		}
	}
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
	}
	withdrawn := b.withdraw(&w.Request)
	select {
	case <-w.done: // the request was done at the same moment
		return nil
	default:
		return leaveError(ctx, withdrawn)
	}
}

// leaveError returns the error for a caller that left before there was a reply.
func leaveError(ctx context.Context, withdrawn bool) error {
	err := fmt.Errorf("%w: %w", abstractions.ErrUnavailable, ctx.Err())
	if withdrawn {
		return providerkit.MarkNotApplied(err)
	}
	return err
}

// Do runs an operation. If it returns an error, ctx has ended or the Batcher is closed, and the operation may still be under
// way. Otherwise the operation has its reply or has failed. ctx needs a deadline.
func (b *Batcher[T]) Do(ctx context.Context, op T) error {
	by, _ := ctx.Deadline()
	if b.direct > 0 && op.Repeatable() && b.sendDirectly(ctx, by, op) {
		return nil
	}
	before := op.Err() // the operation may have been sent before
	w, _ := b.pool.Get().(*caller[T])
	if w == nil {
		w = newCaller[T](ctx, 1)
	}
	w.Ops, w.Context, w.By = append(w.Ops, op), ctx, by
	err := b.Start(&w.Request)
	if err == nil {
		err = w.await(ctx, b)
	}
	if err != nil {
		return withEarlierOutcome(before, err)
	}
	clear(w.Ops)
	w.Ops, w.Context = w.Ops[:0], nil
	b.pool.Put(w)
	if err := op.Err(); err != nil {
		op.Fail(withEarlierOutcome(before, err))
	}
	return nil
}

// withEarlierOutcome returns err for an operation that was sent before, and marks the outcome as unknown if the
// earlier request left it unknown.
func withEarlierOutcome(before, err error) error {
	if before == nil || abstractions.NotApplied(before) {
		return err
	}
	return providerkit.Partial(err)
}

// sendDirectly makes a call on the caller's goroutine, if there is nothing to combine and the server is known to answer
// at once. It returns false if it made no call, or the call took too long.
func (b *Batcher[T]) sendDirectly(ctx context.Context, by time.Time, op T) bool {
	b.mu.Lock()
	if b.closed || b.slow.Load() || len(b.queue) > 0 || !b.hasRoom() {
		b.mu.Unlock()
		return false
	}
	b.inFlight++
	b.calls.Add(1)
	epoch := b.epoch
	b.mu.Unlock()
	defer func() {
		if next, more := b.finishCall(epoch); more {
			b.startWorker(next) // sends the requests that have arrived in the meantime
			return
		}
		b.calls.Done()
	}()
	if b.direct == UntilItLeaves {
		b.call(ctx, []T{op}, true)
		return true
	}
	limit := time.Now().Add(b.direct)
	if by.Before(limit) {
		limit = by
	}
	bounded, cancel := context.WithDeadline(context.WithoutCancel(ctx), limit)
	defer cancel()
	b.call(bounded, []T{op}, true)
	return op.Err() == nil || time.Now().Before(limit)
}

// DoAll runs operations in parallel, in as few calls as possible. of(op) returns the Batcher for op. If the error returned for an
// operation is nil, the operation has ended, and its Err says whether it failed. An operation with an error may still be under
// way. ctx needs a deadline.
func DoAll[T Operation](ctx context.Context, ops []T, of func(op T) (*Batcher[T], error)) []error {
	errs := make([]error, len(ops))
	parts := split(ctx, ops, errs, of)
	for _, p := range parts {
		p.err = p.batcher.Start(&p.Request)
	}
	for _, p := range parts {
		if p.err == nil {
			p.err = p.await(ctx, p.batcher)
		}
		for _, at := range p.places {
			errs[at] = p.err
		}
	}
	return errs
}

// part is a subset of the operations, for one call.
type part[T Operation] struct {
	*caller[T]
	batcher *Batcher[T]
	places  []int
	err     error
}

// split divides operations among calls, in their order.
func split[T Operation](ctx context.Context, ops []T, errs []error, of func(op T) (*Batcher[T], error)) []*part[T] {
	var parts []*part[T]
	open := map[*Batcher[T]]*part[T]{} // parts with room
	for at, op := range ops {
		b, err := of(op)
		if errs[at] = err; err != nil {
			continue
		}
		p := open[b]
		if p == nil || len(p.Ops) == MaxOperations {
			capacity := min(len(ops)-at, MaxOperations)
			p = &part[T]{caller: newCaller[T](ctx, capacity), batcher: b, places: make([]int, 0, capacity)}
			parts, open[b] = append(parts, p), p
		}
		p.Ops, p.places = append(p.Ops, op), append(p.places, at)
	}
	return parts
}
