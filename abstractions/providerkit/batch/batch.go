package batch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Operation is one of those that a call carries. It keeps its own reply.
type Operation interface {
	// Repeatable says that doing it twice is the same as doing it once.
	Repeatable() bool
	// Err is why it has no reply.
	Err() error
	// Fail ends it without a reply.
	Fail(err error)
}

// Outcome is embedded by operations that may be done twice, and keeps why there is no reply.
type Outcome struct{ err error }

func (*Outcome) Repeatable() bool { return true }
func (o *Outcome) Err() error     { return o.err }
func (o *Outcome) Fail(err error) { o.err = err }

// Batcher combines operations into calls: see the package. Make one with New. It is safe for concurrent use.
type Batcher[T Operation] struct {
	send   func(ctx context.Context, ops []T, direct bool)
	direct time.Duration
	calls  sync.WaitGroup
	slow   atomic.Bool // the last call took longer than a direct one should
	spare  sync.Pool   // of *waiting[T], to be used again

	mu       sync.Mutex
	queue    []*Request[T]
	inFlight int // calls under way, with those that are about to begin
	late     int // of them, those that nobody waits for any more
	epoch    int // counts how often calls were found to be late
	closed   bool
	overdue  *time.Timer // armed while requests wait for a call under way to end
}

// Request is operations that are sent together, in one call. Its owner leaves it alone until Done is called with it.
type Request[T Operation] struct {
	Ops     []T               // 1 to MaxOperations
	Context context.Context   // its values are for what traces calls
	By      time.Time         // it is not sent after that
	Tag     int               // the owner's own
	Done    func(*Request[T]) // on another goroutine, maybe before Start returns; it does not block
}

// New makes a Batcher. send makes a call, after which each operation has its reply or has failed; it is told of a direct one,
// on the goroutine of the only caller. direct is for how long that may take, since the caller can't leave before: send must
// return soon after its context's deadline. After that a worker sends the operation again. Callers leave it to workers if
// direct is 0. With UntilItLeaves the call has the caller's own context, and is made once.
func New[T Operation](send func(ctx context.Context, ops []T, direct bool), direct time.Duration) *Batcher[T] {
	return &Batcher[T]{send: send, direct: direct}
}

// Start queues a request. Done is called once its operations have their replies, or have failed.
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
		b.expect()
	}
	return nil
}

// withdraw takes a request back, and reports false if it is too late for that.
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

// Close refuses further requests, fails those that wait, and waits for calls under way.
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

// errUnsent is for a request whose time was over before it was its turn.
var errUnsent = providerkit.MarkNotApplied(fmt.Errorf("%w: the request was not sent in time", abstractions.ErrUnavailable))

// left is the error for a caller that has left before there was a reply.
func left(ctx context.Context, withdrawn bool) error {
	err := fmt.Errorf("%w: %w", abstractions.ErrUnavailable, ctx.Err())
	if withdrawn {
		return providerkit.MarkNotApplied(err)
	}
	return err
}
