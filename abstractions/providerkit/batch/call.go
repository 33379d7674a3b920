package batch

import (
	"context"
	"runtime"
	"slices"
	"time"
)

// hasRoom says whether a call may begin. Caller holds mu.
func (b *Batcher[T]) hasRoom() bool { return b.inFlight-b.late < usualCalls && b.inFlight < MaxCalls }

// call makes a call, and notes how fast the server is.
func (b *Batcher[T]) call(ctx context.Context, ops []T, direct bool) {
	began := time.Now()
	b.send(ctx, ops, direct)
	b.slow.Store(time.Since(began) > prompt)
}

// addWorker begins a call, and those that follow on it. Caller holds mu.
func (b *Batcher[T]) addWorker() {
	b.inFlight++
	b.calls.Add(1)
	go b.work(b.epoch)
}

// work makes calls until nothing waits, or there are enough other workers.
func (b *Batcher[T]) work(epoch int) {
	defer b.calls.Done()
	var batch []*Request[T]
	var ops []T
	for more := true; more; epoch, more = b.landed(epoch) {
		batch = inTime(b.take(batch[:0]))
		for _, r := range batch {
			ops = append(ops, r.Ops...)
		}
		if len(batch) > 0 {
			ctx, cancel := contextOf(batch)
			b.call(ctx, ops, false)
			cancel()
		}
		for _, r := range batch {
			r.Done(r)
		}
		clear(batch)
		clear(ops)
		ops = ops[:0]
		runtime.Gosched() // callers that go on at once share the next call
	}
}

// take adds the requests of the next call to an empty batch.
func (b *Batcher[T]) take(batch []*Request[T]) []*Request[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, size := 0, 0
	for n < len(b.queue) && (n == 0 || size+len(b.queue[n].Ops) <= MaxOperations) {
		size += len(b.queue[n].Ops)
		n++
	}
	batch = append(batch, b.queue[:n]...)
	b.queue = slices.Delete(b.queue, 0, n)
	switch {
	case len(b.queue) > 0:
		b.expect()
	case b.overdue != nil:
		b.overdue.Stop()
	}
	return batch
}

// landed ends a call that began in an epoch, and says whether its worker is to make another.
func (b *Batcher[T]) landed(epoch int) (next int, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if epoch < b.epoch {
		b.late--
	}
	if len(b.queue) > 0 && b.inFlight-b.late <= usualCalls {
		return b.epoch, true
	}
	b.inFlight--
	return 0, false
}

// expect sees to it that what waits is sent even if no call ends. Caller holds mu.
func (b *Batcher[T]) expect() {
	if b.overdue == nil {
		b.overdue = time.AfterFunc(stuck, b.callBeside)
		return
	}
	b.overdue.Reset(stuck)
}

// callBeside sends what waits beside the calls that are under way: they have all begun before it came.
func (b *Batcher[T]) callBeside() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return
	}
	b.late = b.inFlight
	b.epoch++
	if b.inFlight < MaxCalls {
		b.addWorker()
	}
}

// inTime leaves out requests whose time is over.
func inTime[T Operation](batch []*Request[T]) []*Request[T] {
	now := time.Now()
	return slices.DeleteFunc(batch, func(r *Request[T]) bool {
		if r.By.After(now) {
			return false
		}
		r.fail(errUnsent)
		return true
	})
}

// contextOf is the context of a worker's call. It ends with none of the senders, only at the latest deadline of all. The
// values are those of a sender that is alone.
func contextOf[T Operation](batch []*Request[T]) (context.Context, context.CancelFunc) {
	ctx := context.Background()
	if len(batch) == 1 {
		ctx = context.WithoutCancel(batch[0].Context)
	}
	latest := slices.MaxFunc(batch, func(a, b *Request[T]) int { return a.By.Compare(b.By) })
	return context.WithDeadline(ctx, latest.By)
}
