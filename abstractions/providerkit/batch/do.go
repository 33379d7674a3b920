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
	if b.direct > 0 && op.Repeatable() && b.sendDirectly(ctx, by, op) {
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
		if next, more := b.landed(epoch); more {
			go b.work(next) // sends what has come meanwhile
			return
		}
		b.calls.Done()
	}()
	if b.direct == UntilItLeaves {
		b.call(ctx, []T{op})
		return true
	}
	limit := time.Now().Add(b.direct)
	if by.Before(limit) {
		limit = by
	}
	bounded, done := b.bounded(ctx, limit)
	defer done()
	b.call(bounded, []T{op})
	return op.Err() == nil || time.Now().Before(limit)
}

// callContext is the context of a call. It has the values of a sender's, for what traces calls, and a deadline of its own.
type callContext struct {
	context.Context
	by    time.Time
	ended chan struct{} // nil if nobody is told of the end: clients give the deadline to the connection
}

func (c callContext) Deadline() (time.Time, bool) { return c.by, true }

func (c callContext) Done() <-chan struct{} { return c.ended }

func (c callContext) Err() error {
	select {
	case <-c.ended:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// alarm ends the context of a direct call. It is used again unless it had to.
type alarm struct {
	ended chan struct{}
	timer *time.Timer
}

// bounded is the context of a direct call. It ends at its deadline, also for what waits for a connection. done must be
// called after the call.
func (b *Batcher[T]) bounded(sender context.Context, by time.Time) (ctx context.Context, done func()) {
	a, _ := b.alarms.Get().(*alarm)
	if a == nil {
		ended := make(chan struct{})
		a = &alarm{ended, time.AfterFunc(time.Until(by), func() { close(ended) })}
	} else {
		a.timer.Reset(time.Until(by))
	}
	return callContext{context.WithoutCancel(sender), by, a.ended}, func() {
		if a.timer.Stop() {
			b.alarms.Put(a)
		}
	}
}
