package sequence

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// Options configure a Stream. The zero value is ready to use.
type Options[Tx any] struct {
	// Lease configures the engine of package leasing that renews the stream's leases: owner,
	// renewal, margins of trust, logger, meter and tracer. Its TTL is not used: see Durations.
	// Leases appear there under the name sequence/STREAM/OPERATION.
	Lease leasing.Options
	// Durations chooses the duration of a lease if Operation.Duration is 0.
	Durations Durations
	// Write is the application's own write for commits without one, also for those of
	// Settle and of a Journal, which may come from an earlier run of the process.
	// Default: no write.
	Write Write[Tx]
	// InOrder makes Commit refuse a number while a lower number is open, with an *OpenError.
	// Number.Wait waits for the lower numbers to close.
	InOrder bool
	// Journal, unless nil, keeps results that Do could not settle because the store was
	// unreachable: see Stream.Sync.
	Journal *Journal
}

// Stream leases the numbers of one stream. It is safe for concurrent use. Make one with NewStream,
// and close it with Close.
type Stream[Tx any] struct {
	store   Store[Tx]
	name    string
	options Options[Tx]
	manager *leasing.Manager
	history history
	turns   turns

	telemetry *telemetry
}

// NewStream makes a Stream over a store. It sends no request, so a stream that was never
// created shows as ErrUnknownStream at the first use.
func NewStream[Tx any](store Store[Tx], name string, options Options[Tx]) (*Stream[Tx], error) {
	if store == nil {
		return nil, invalid("store", nil, "a Store")
	}
	if err := seqstore.ValidateText("name", name, seqstore.MaxStreamBytes, false); err != nil {
		return nil, err
	}
	options.Durations = options.Durations.withDefaults()
	if err := options.Durations.validate(); err != nil {
		return nil, err
	}
	manager, err := leasing.NewManager(leaser{}, options.Lease)
	if err != nil {
		return nil, err
	}
	return &Stream[Tx]{store: store, name: name, options: options, manager: manager, telemetry: newTelemetry(options.Lease.MeterProvider)}, nil
}

// Name returns the name of the stream.
func (s *Stream[Tx]) Name() string { return s.name }

// Subscribe calls observer for the events of all leases of the stream: see leasing.Observer.
func (s *Stream[Tx]) Subscribe(observer leasing.Observer) (unsubscribe func()) {
	return s.manager.Subscribe(observer)
}

// requestTime bounds a request that the caller's context does not bound.
func (s *Stream[Tx]) requestTime() time.Duration {
	return cmp.Or(s.options.Lease.Tuning.RequestTimeout, 10*time.Second)
}

// Close ends the stream in this process, as leasing.Manager.Close does: it cancels the
// contexts of all numbers, and waits for their holders. The store stays open.
func (s *Stream[Tx]) Close(ctx context.Context) error { return s.manager.Close(ctx) }

// Operation is a piece of work that needs a number.
type Operation struct {
	// ID identifies the operation. The caller chooses it, unique in the stream for as long as
	// entries are kept: leasing again with the same ID returns the same number.
	ID string
	// Kind groups operations of similar length, for metrics and Durations. May be "".
	Kind string
	// Size is the relative duration among operations of the same kind; 0 counts as 1.
	Size float64
	// Duration of the lease; 0 leaves it to Durations.
	Duration time.Duration
}

// Lease leases the next number for an operation, and renews it until Commit, Release, Close
// or loss. A request whose reply was lost is retried until ctx ends, and gets the same number. Another
// Lease of the same operation also gets that number while the lease lasts; in this process it waits
// until the first holder is done. If the number is closed the error is an *EndedError.
func (s *Stream[Tx]) Lease(ctx context.Context, op Operation) (*Number[Tx], error) {
	return s.lease(ctx, op, nil, (*leasing.Manager).Acquire)
}

// lease makes a lease of a number from a request to the store, or from another number's commit.
func (s *Stream[Tx]) lease(ctx context.Context, op Operation, along *along, acquire func(*leasing.Manager, context.Context, string) (*leasing.Lease, error)) (*Number[Tx], error) {
	d := op.Duration
	if d == 0 {
		d = s.history.next(s.options.Durations, op.Kind, op.Size)
	}
	req := seqstore.LeaseRequest{Stream: s.name, Op: op.ID, Kind: op.Kind, Owner: s.options.Lease.Owner, Duration: d}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	give, err := s.turns.take(ctx, op.ID, along == nil)
	if err != nil {
		return nil, err
	}
	var lease *leasing.Lease
	defer func() {
		if lease == nil {
			give()
		}
	}()
	ended := func(e leasing.Event) {
		if e.Kind == leasing.EventReleased || e.Kind == leasing.EventLost {
			give()
		}
	}
	began, held := time.Now(), &numberLease{store: s.store, req: req, along: along}
	manager := s.manager.With(leasing.AcquireOptions{TTL: d, Observer: ended})
	lease, err = acquire(manager, context.WithValue(ctx, asking{}, leasable(held)), leaseName(s.name, op.ID))
	if err != nil {
		return nil, err
	}
	return &Number[Tx]{stream: s, lease: lease, held: held, began: began, op: op}, nil
}

// Do leases a number, runs work under the number's context, and makes sure that the
// number is closed, whatever happens:
//
//   - after Commit or Release in work there is nothing left to do;
//   - an error or a panic of work releases the number, which makes a gap;
//   - a Commit that came too late, or got no answer, is settled: see Settle. If that could commit the payload after
//     all, Do returns nil. Else it returns the *LateCommitError, whose Settled says
//     where the payload is;
//   - nil from work without Commit or Release releases the number, and is ErrNotCommitted.
//
// The context that work gets ends when the lease is lost, when the stream is closed, or when ctx
// ends; context.Cause says which.
func (s *Stream[Tx]) Do(ctx context.Context, op Operation, work func(ctx context.Context, n *Number[Tx]) error) (err error) {
	if work == nil {
		return invalid("work", nil, "a function")
	}
	n, err := s.Lease(ctx, op)
	if err != nil {
		return err
	}
	return n.do(ctx, work)
}

// DoAll runs Do for operations, one after the other, until one fails, and returns the number of successes. The transaction that
// commits a number also leases the next operation's number, if that is cheaper for the store. So a writer with many operations needs
// one transaction for each, where Do needs two.
//
// Work should return soon after its Commit, since the next number is leased from then on. If work fails after its Commit, or
// ctx ends at that moment, the next number becomes a gap.
func (s *Stream[Tx]) DoAll(ctx context.Context, ops []Operation, work func(ctx context.Context, n *Number[Tx]) error) (done int, err error) {
	if work == nil {
		return 0, invalid("work", nil, "a function")
	}
	var n *Number[Tx]
	defer func() {
		if next := n.following(); next != nil {
			_ = next.Release(ctx)
		}
	}()
	for i := range ops {
		if ctx.Err() != nil {
			return i, context.Cause(ctx)
		}
		if n = n.following(); n == nil {
			if n, err = s.Lease(ctx, ops[i]); err != nil {
				return i, err
			}
		}
		if i+1 < len(ops) {
			n.leaseNext = func(along *along) (*Number[Tx], error) {
				return s.lease(ctx, ops[i+1], along, (*leasing.Manager).TryAcquire)
			}
		}
		if err = n.do(ctx, work); err != nil {
			return i, err
		}
	}
	return len(ops), nil
}

// do runs the function of a Do, and closes the number.
func (n *Number[Tx]) do(ctx context.Context, work func(ctx context.Context, n *Number[Tx]) error) (err error) {
	inner, cancel := context.WithCancelCause(n.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	returned := false
	defer func() {
		if !returned { // work has panicked: the panic propagates
			_ = n.Release(ctx)
		}
	}()
	err = work(inner, n)
	returned = true
	return n.finish(ctx, err)
}

// ErrNotCommitted is returned by Do if its function returned nil without Commit or Release.
var ErrNotCommitted = errors.New("the function has neither committed nor released its number")

// finish closes the number after Do's function has returned.
func (n *Number[Tx]) finish(ctx context.Context, err error) error {
	n.mu.Lock()
	tried, unknown, closed := n.tried, n.unknown, n.closed
	n.mu.Unlock()
	if closed {
		return err
	}
	late := (*LateCommitError)(nil)
	if tried != nil && (unknown || errors.Is(err, ErrLate) || n.lease.Err() != nil) {
		n.abandon(ctx)
		settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.stream.requestTime())
		settled, e, settleErr := n.stream.Settle(settling, *tried, n.write)
		cancel()
		if settleErr != nil && n.stream.options.Journal != nil {
			if settleErr = n.stream.options.Journal.append(n.stream.name, *tried); settleErr == nil {
				settled, e = SettledJournaled, Entry{Stream: n.stream.name, Seq: tried.Seq, Op: tried.Op, State: Leased, Token: tried.Token}
			}
		}
		switch {
		case settleErr != nil:
			return errors.Join(err, settleErr)
		case settled == SettledCommitted:
			return nil
		case errors.As(err, &late):
			late.Settled, late.Entry = settled, e.Bare()
			return err
		}
		return errors.Join(err, &LateCommitError{Op: "commit", Entry: e.Bare(), Settled: settled})
	}
	released := n.Release(ctx)
	if err == nil {
		err = ErrNotCommitted
	}
	return errors.Join(err, released)
}
