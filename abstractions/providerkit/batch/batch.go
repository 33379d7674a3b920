package batch

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Operation is one of the operations in a call. It keeps its own reply.
type Operation interface {
	// Repeatable reports whether the operation is idempotent.
	Repeatable() bool
	// Err returns the reason why the operation has no reply.
	Err() error
	// Fail ends the operation without a reply.
	Fail(err error)
}

// Outcome is embedded by repeatable operations, and keeps the reason why there is no reply.
type Outcome struct{ err error }

func (*Outcome) Repeatable() bool { return true }
func (o *Outcome) Err() error     { return o.err }
func (o *Outcome) Fail(err error) { o.err = err }

// Batcher combines operations into calls: see the package documentation. Make one with New. It is safe for
// concurrent use.
type Batcher[T Operation] struct {
	send   func(ctx context.Context, ops []T, direct bool)
	direct time.Duration
	calls  sync.WaitGroup
	slow   atomic.Bool // the last call took longer than a direct call should
	pool   sync.Pool   // *caller[T] values for reuse

	mu       sync.Mutex
	queue    []*Request[T]
	inFlight int // calls under way, including calls that are about to begin
	late     int // the calls in flight that no longer count as busy, since they hang
	epoch    int // counts how often calls were found to be late
	closed   bool
	overdue  *time.Timer // armed while requests wait for a call under way to end
}

// Request holds operations that are sent together, in one call. Its owner must not use the Request until Done is
// called.
type Request[T Operation] struct {
	Ops     []T               // 1 to MaxOperations
	Context context.Context   // its values are for tracing
	By      time.Time         // the request is not sent after that time
	Tag     int               // for the owner's use
	Done    func(*Request[T]) // called on another goroutine, possibly before Start returns; must not block
}

// New makes a Batcher. send makes a call, after which each operation has its reply or has failed; its argument direct marks a
// direct call, on the goroutine of the only caller. The parameter direct of New bounds a direct call, since the caller can't
// leave before the end of the call: send must return soon after its context's deadline. If the call has not succeeded by
// then, a worker repeats the operation. If direct is 0, all calls are made by workers. With UntilItLeaves the call has the
// caller's own context, and is made once.
func New[T Operation](send func(ctx context.Context, ops []T, direct bool), direct time.Duration) *Batcher[T] {
	return &Batcher[T]{send: send, direct: direct}
}

// Start queues a request. Done is called after all its operations have their replies, or have
// failed.
func (b *Batcher[T]) Start(r *Request[T]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return abstractions.ErrClosed
	}
	b.queue = append(b.queue, r)
	switch {
	case b.hasRoom():
		b.addWorker()
	case len(b.queue) == 1:
		b.armTimer()
	}
	return nil
}

// withdraw removes a request from the queue, and returns false if the request has already left the
// queue.
func (b *Batcher[T]) withdraw(r *Request[T]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.queue, r)
	if i < 0 {
		return false
	}
	b.queue = slices.Delete(b.queue, i, i+1)
	return true
}

// Close refuses further requests, fails the waiting requests, and waits for calls under way.
func (b *Batcher[T]) Close() {
	b.mu.Lock()
	queue := b.queue
	b.queue, b.closed = nil, true
	if b.overdue != nil {
		b.overdue.Stop()
	}
	b.mu.Unlock()
	for _, r := range queue {
		r.fail(abstractions.ErrClosed)
	}
	b.calls.Wait()
}

// fail ends a request that was not sent.
func (r *Request[T]) fail(err error) {
	for _, op := range r.Ops {
		op.Fail(err)
	}
	r.Done(r)
}

// hasRoom reports whether a call may begin. Caller holds mu.
func (b *Batcher[T]) hasRoom() bool { return b.inFlight-b.late < usualCalls && b.inFlight < MaxCalls }

// call makes a call, and records whether the server was slow. A panic fails all operations.
func (b *Batcher[T]) call(ctx context.Context, ops []T, direct bool) {
	began := time.Now()
	err := providerkit.Guard(func() error {
		b.send(ctx, ops, direct)
		return nil
	})
	failAll(ops, err)
	b.slow.Store(time.Since(began) > fastAnswer)
}

// failAll fails operations, unless err is nil.
func failAll[T Operation](ops []T, err error) {
	if err != nil {
		for _, op := range ops {
			op.Fail(err)
		}
	}
}

// addWorker starts a worker, which makes a call and the calls that follow. Caller holds mu.
func (b *Batcher[T]) addWorker() {
	b.inFlight++
	b.calls.Add(1)
	b.startWorker(b.epoch)
}

// startWorker starts a worker whose first call belongs to the given epoch.
func (b *Batcher[T]) startWorker(epoch int) {
	w := &worker[T]{b: b, epoch: epoch}
	providerkit.Go(w.work, w.end)
}

// worker makes calls until no request waits, or there are enough other workers.
type worker[T Operation] struct {
	b     *Batcher[T]
	epoch int
	batch []*Request[T] // of the call under way
	ops   []T
}

func (w *worker[T]) work() error {
	for more := true; more; w.epoch, more = w.b.finishCall(w.epoch) {
		w.batch = inTime(w.b.take(w.batch[:0]))
		for _, r := range w.batch {
			w.ops = append(w.ops, r.Ops...)
		}
		if len(w.batch) > 0 {
			ctx, cancel := contextOf(w.batch)
			w.b.call(ctx, w.ops, false)
			cancel()
		}
		w.returnRequests()
		runtime.Gosched() // callers that continue at once share the next call
	}
	return nil
}

// returnRequests returns the requests of a call to their owners.
func (w *worker[T]) returnRequests() {
	for _, r := range w.batch {
		r.Done(r)
	}
	clear(w.batch)
	clear(w.ops)
	w.batch, w.ops = w.batch[:0], w.ops[:0]
}

// end replaces a worker whose goroutine was ended by the code of a call.
func (w *worker[T]) end(err error) {
	if err != nil {
		failAll(w.ops, err)
		w.returnRequests()
		if next, more := w.b.finishCall(w.epoch); more {
			w.b.startWorker(next)
			return
		}
	}
	w.b.calls.Done()
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
		b.armTimer()
	case b.overdue != nil:
		b.overdue.Stop()
	}
	return batch
}

// finishCall ends a call that began in the given epoch, and reports whether its worker must make another call.
func (b *Batcher[T]) finishCall(epoch int) (next int, more bool) {
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

// armTimer arms the timer that sends waiting requests even if no call ends. Caller holds mu.
func (b *Batcher[T]) armTimer() {
	if b.overdue == nil {
		b.overdue = providerkit.AfterTime(maxQueueDelay, b.sendOverdue)
		return
	}
	b.overdue.Reset(maxQueueDelay)
}

// sendOverdue sends the waiting requests in addition to the calls under way, all of which began
// before the requests arrived.
func (b *Batcher[T]) sendOverdue() {
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

// errUnsent is the error for a request whose deadline passed before its turn.
var errUnsent = providerkit.NotInTime("the request was not sent in time")

// inTime drops requests whose deadline has passed.
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

// contextOf returns the context of a worker's call. It does not end with the context of a sender, but at the latest
// deadline in the batch. It has the values of the sender if there is only one sender.
func contextOf[T Operation](batch []*Request[T]) (context.Context, context.CancelFunc) {
	ctx := context.Background()
	if len(batch) == 1 {
		ctx = context.WithoutCancel(batch[0].Context)
	}
	latest := slices.MaxFunc(batch, func(a, b *Request[T]) int { return a.By.Compare(b.By) })
	return context.WithDeadline(ctx, latest.By)
}
