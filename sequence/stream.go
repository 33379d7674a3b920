package sequence

import (
	"cmp"
	"context"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// Options configure a Stream. The zero value is ready to use.
type Options[Tx any] struct {
	// Lease configures the engine of package leasing that renews the stream's leases: owner,
	// renewal, margins of trust, logger, meter and tracer. Its TTL is not used: see Durations.
	// The engine's name for a lease is sequence/STREAM/OPERATION.
	Lease leasing.Options
	// Durations chooses the duration of a lease if Operation.Duration is 0.
	Durations Durations
	// Write is the application's own write for commits that have none, including those of Settle
	// and of a Journal, whose results may come from an earlier run of the process. Default: no
	// write.
	Write Write[Tx]
	// InOrder makes Commit return an *OpenError while a lower number is open. Number.Wait waits for
	// the lower numbers to close.
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

// NewStream makes a Stream over a store. It sends no request, so the first use of a stream that was
// never created returns ErrUnknownStream.
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
	manager, err := leasing.NewManager(leaseProvider{}, options.Lease)
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
	// ID identifies the operation. The caller chooses the ID, which must be unique in the stream as
	// long as entries are kept, since leasing again with the same ID returns the same number.
	ID string
	// Kind groups operations of similar length, for metrics and Durations. May be "".
	Kind string
	// Size is the expected duration relative to other operations of the same Kind; 0 counts as 1.
	Size float64
	// Duration is the duration of the lease; if it is 0, Durations chooses.
	Duration time.Duration
}
