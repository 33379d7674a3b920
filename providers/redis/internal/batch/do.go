package batch

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// waiting is a caller's request and the channel on which it comes back, to be used again.
type waiting[T Operation] struct {
	Request[T]
	ops   [1]T
	done  chan *Request[T]
	timer *time.Timer
}

// Do runs an operation. If it returns an error, ctx has ended or the Batcher is closed; the operation may still be under way
// then. Otherwise it has its reply or has failed. ctx needs a deadline.
func (b *Batcher[T]) Do(ctx context.Context, op T) error {
	by, _ := ctx.Deadline()
	if b.direct && op.Repeatable() && b.sendDirectly(ctx, by, op) {
		return nil
	}
	before := op.Err() // it may have been sent then
	w, _ := b.spare.Get().(*waiting[T])
	if w == nil {
		w = &waiting[T]{done: make(chan *Request[T], 1), timer: time.NewTimer(prompt)}
	}
	w.ops[0] = op
	w.Request = Request[T]{Ops: w.ops[:], Context: ctx, By: by, Done: w.done}
	if err := b.Start(&w.Request); err != nil {
		return again(before, err)
	}
	if b.slow.Load() || !w.soon() {
		select {
		case <-w.done:
		case <-ctx.Done():
			if b.withdraw(&w.Request) {
				return again(before, left(ctx, true))
			}
			select {
			case <-w.done: // at the same moment
			default:
				return left(ctx, false)
			}
		}
	}
	*w = waiting[T]{done: w.done, timer: w.timer}
	b.spare.Put(w)
	if err := op.Err(); err != nil {
		op.Fail(again(before, err))
	}
	return nil
}

// soon waits a little, and says whether the request has come back. Most have, so that few contexts are asked for the channel
// that tells of their end: many make it, and a timer, only then.
func (w *waiting[T]) soon() bool {
	w.timer.Reset(min(prompt, time.Until(w.By)))
	select {
	case <-w.done:
		w.timer.Stop()
		return true
	case <-w.timer.C:
		return false
	}
}

// again is the error of an operation that was sent before, if that has left its outcome unknown.
func again(before, err error) error {
	if before == nil || abstractions.NotApplied(before) {
		return err
	}
	return providerkit.Partial(err)
}

// sendDirectly makes a call on the caller's goroutine, if there is nothing to combine it with and the server is known to
// answer at once. It reports false if there was no call, or it took too long.
func (b *Batcher[T]) sendDirectly(ctx context.Context, by time.Time, op T) bool {
	epoch, ok := b.begin()
	if !ok {
		return false
	}
	defer b.end(epoch)
	limit := time.Now().Add(directTime)
	if by.Before(limit) {
		limit = by
	}
	bounded, done := b.bounded(ctx, limit)
	defer done()
	b.call(bounded, []T{op})
	return op.Err() == nil || time.Now().Before(limit)
}

// begin counts a call on a caller's goroutine, if there is room for it.
func (b *Batcher[T]) begin() (epoch int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.slow.Load() || len(b.queue) > 0 || !b.hasRoom() {
		return 0, false
	}
	b.inFlight++
	b.calls.Add(1)
	return b.epoch, true
}

// end ends that call, and has sent what has come meanwhile.
func (b *Batcher[T]) end(epoch int) {
	if next, more := b.landed(epoch); more {
		go b.work(next)
		return
	}
	b.calls.Done()
}

// DoAll runs operations, each by the Batcher that of names, in as few calls as possible, side by side. Those whose error is
// nil have their replies or have failed; the others may still be under way. ctx needs a deadline.
func DoAll[T Operation](ctx context.Context, ops []T, of func(op T) (*Batcher[T], error)) []error {
	errs := make([]error, len(ops))
	if len(ops) == 1 {
		b, err := of(ops[0])
		if err == nil {
			err = b.Do(ctx, ops[0])
		}
		errs[0] = err
		return errs
	}
	parts := split(ctx, ops, errs, of)
	done := make(chan *Request[T], len(parts))
	open := make(map[*Request[T]]*part[T], len(parts))
	for _, p := range parts {
		p.Done = done
		if err := p.batcher.Start(&p.Request); err != nil {
			p.all(errs, err)
			continue
		}
		open[&p.Request] = p
	}
	for len(open) > 0 {
		select {
		case r := <-done:
			delete(open, r)
		case <-ctx.Done():
			for r, p := range open {
				p.all(errs, left(ctx, p.batcher.withdraw(r)))
			}
			for range len(done) { // replies that are there
				open[<-done].all(errs, nil)
			}
			return errs
		}
	}
	return errs
}

// part is some of several operations, for one call.
type part[T Operation] struct {
	Request[T]
	batcher *Batcher[T]
	places  []int
}

// all sets the errors of its operations.
func (p *part[T]) all(errs []error, err error) {
	for _, at := range p.places {
		errs[at] = err
	}
}

// split divides operations among calls, in their order.
func split[T Operation](ctx context.Context, ops []T, errs []error, of func(op T) (*Batcher[T], error)) []*part[T] {
	by, _ := ctx.Deadline()
	var parts []*part[T]
	open := map[*Batcher[T]]*part[T]{} // that have room
	for at, op := range ops {
		b, err := of(op)
		if errs[at] = err; err != nil {
			continue
		}
		p := open[b]
		if p == nil || len(p.Ops) == MaxOperations {
			room := min(len(ops)-at, MaxOperations)
			p = &part[T]{batcher: b, places: make([]int, 0, room)}
			p.Request = Request[T]{Ops: make([]T, 0, room), Context: ctx, By: by}
			parts, open[b] = append(parts, p), p
		}
		p.Ops, p.places = append(p.Ops, op), append(p.places, at)
	}
	return parts
}
