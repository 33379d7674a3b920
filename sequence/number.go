package sequence

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// Number is a leased number. It is safe for concurrent use.
type Number[Tx any] struct {
	stream *Stream[Tx]
	lease  *leasing.Lease
	number *numberLease
	began  time.Time
	op     Operation

	mu        sync.Mutex
	closed    bool       // committed or released
	unsettled *Unsettled // the latest Commit, unless it succeeded or was refused
	unknown   bool       // whether the outcome of unsettled is unknown
	write     Write[Tx]  // of unsettled
	next      *Number[Tx]

	leaseNext func(*jointLease) (*Number[Tx], error) // leases the next number in the first Commit, unless nil
}

// Lease leases the next number for an operation, and renews the lease until Commit, Release, Close or
// a loss. A request whose reply was lost is retried until ctx ends, and gets the same number. A Lease
// of the same operation in another process also gets that number while the lease lasts; in this
// process it waits until the first holder is done. If the number is closed the error is an
// *EndedError.
func (s *Stream[Tx]) Lease(ctx context.Context, op Operation) (*Number[Tx], error) {
	return s.lease(ctx, op, nil, (*leasing.Manager).Acquire)
}

// lease leases a number, by a request to the store or with another number's commit.
func (s *Stream[Tx]) lease(ctx context.Context, op Operation, joint *jointLease, acquire func(*leasing.Manager, context.Context, string) (*leasing.Lease, error)) (*Number[Tx], error) {
	d := op.Duration
	if d == 0 {
		d = s.history.next(s.options.Durations, op.Kind, op.Size)
	}
	req := seqstore.LeaseRequest{Stream: s.name, Op: op.ID, Kind: op.Kind, Owner: s.options.Lease.Owner, Duration: d}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	endTurn, err := s.turns.take(ctx, op.ID, joint == nil)
	if err != nil {
		return nil, err
	}
	var lease *leasing.Lease
	defer func() {
		if lease == nil {
			endTurn()
		}
	}()
	ended := func(e leasing.Event) {
		if e.Kind == leasing.EventReleased || e.Kind == leasing.EventLost {
			endTurn()
		}
	}
	began, number := time.Now(), &numberLease{store: s.store, req: req, joint: joint}
	manager := s.manager.With(leasing.AcquireOptions{TTL: d, Observer: ended})
	lease, err = acquire(manager, context.WithValue(ctx, handlerKey{}, leaseHandler(number)), leaseName(s.name, op.ID))
	if err != nil {
		return nil, err
	}
	return &Number[Tx]{stream: s, lease: lease, number: number, began: began, op: op}, nil
}

// Seq is the number.
func (n *Number[Tx]) Seq() int64 { return n.number.entry.Load().Seq }

// Token is the fencing token of this lease of the number. A cleaner's claim has a
// greater token.
func (n *Number[Tx]) Token() int64 { return n.lease.Token() }

// Op is the operation's ID.
func (n *Number[Tx]) Op() string { return n.op.ID }

// Work returns the work that an earlier lease of the same operation and number has saved.
func (n *Number[Tx]) Work() Work { return n.number.entry.Load().Clone().Work }

// Context returns a context that ends before a cleaner can claim the number, or when the number is committed or released.
// Its cause is Err. It keeps the values of the context of Lease, but not its cancellation.
func (n *Number[Tx]) Context() context.Context { return n.lease.Context() }

// Err returns nil while the lease lasts, and then a *leasing.LostError, or an error that matches
// leasing.ErrReleased.
func (n *Number[Tx]) Err() error { return n.lease.Err() }

// Remaining returns the time for which the lease can be trusted without a further renewal.
func (n *Number[Tx]) Remaining() time.Duration { return n.lease.Remaining() }

// Renew renews the lease now. The stream renews automatically.
func (n *Number[Tx]) Renew(ctx context.Context) error { return n.lease.Renew(ctx) }

// Wait waits until no lower number is open. Meanwhile the lease is renewed. Wait returns early,
// with the cause, when ctx or the lease ends.
func (n *Number[Tx]) Wait(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.lease.Context(), func() { cancel(n.lease.Err()) })()
	began := time.Now()
	err := Wait(ctx, n.stream.store, n.stream.name, n.Seq())
	n.stream.telemetry.wait.Record(ctx, time.Since(began).Seconds(), attributes(n.stream.name, n.op.Kind))
	return err
}

// Save stores work for a recovery. Partial work may be saved repeatedly, but only by the holder.
// Completed work is final, and a recovery may commit it unchanged: Release then does not make a gap, and
// the claim of a cleaner that has not seen the work ends.
func (n *Number[Tx]) Save(ctx context.Context, phase Phase, data []byte) error {
	req := seqstore.SaveRequest{Stream: n.stream.name, Seq: n.Seq(), Token: n.Token(), Work: Work{Phase: phase, Data: data}}
	return n.stream.store.Save(ctx, req)
}

// Commit closes the number with its payload, and runs write, or Options.Write if write is nil, in
// the same transaction. If the reply is lost the request is retried while the lease lasts, and
// write then runs again, in another transaction.
//
// It returns a *LateCommitError if the number is no longer the caller's. Then nothing was changed. A second commit with the same
// payload is not an error; with a different payload it returns ErrOtherPayload. An error from write is returned unchanged, and
// the number is still held. If the database refuses the rows of write, at COMMIT for instance, the error is a *RefusedError, and
// the number is still held. A panic in write releases the number, and propagates.
//
// write may take the remaining time of the lease, or three seconds if that is longer. After that its context ends,
// and PostgreSQL ends the transaction of a process that is paused or cut off. If the connection breaks during write,
// the request is retried.
//
// The store decides whether the lease still lasts, not this process's clock. So a Commit may
// succeed although the number's Context has ended, if ctx has not.
func (n *Number[Tx]) Commit(ctx context.Context, payload []byte, write Write[Tx]) error {
	if write == nil {
		write = n.stream.options.Write
	}
	req := seqstore.CommitRequest{Stream: n.stream.name, Seq: n.Seq(), Token: n.Token(), Payload: payload, InOrder: n.stream.options.InOrder}
	if err := req.Validate(); err != nil {
		return err
	}
	n.mu.Lock()
	if n.closed { // the context of the work has ended with the number
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), n.stream.requestTime())
		defer cancel()
	} else {
		n.unsettled, n.write, n.unknown = &Unsettled{Seq: req.Seq, Op: n.op.ID, Token: req.Token, Payload: payload}, write, false
	}
	leaseNext := n.leaseNext
	n.leaseNext = nil
	n.mu.Unlock()
	returned := false
	defer func() {
		if !returned { // write has panicked: the panic propagates
			_ = n.Release(ctx)
		}
	}()
	var next *Number[Tx]
	own, err := retry(ctx, n.lease, write, func(write Write[Tx]) (err error) {
		if leaseNext != nil {
			next, err = n.commitAndLease(ctx, req, leaseNext, write)
			leaseNext = nil // after a lost reply, the next number is found by its operation
			return err
		}
		_, err = n.stream.store.Commit(ctx, req, write)
		return err
	})
	returned = true
	if errors.Is(err, ErrLate) {
		n.stream.telemetry.late.Add(ctx, 1, attributes(n.stream.name, n.op.Kind))
	}
	n.mu.Lock()
	if err != nil {
		defer n.mu.Unlock()
		switch {
		case own || errors.Is(err, ErrRefused): // there is nothing to settle
			n.unsettled, n.write = nil, nil
		case !isAnswer(err):
			n.unknown = true
		}
		return err
	}
	first := !n.closed
	n.closed, n.unsettled, n.write = true, nil, nil
	if next != nil {
		n.next = next
	}
	n.mu.Unlock()
	n.number.closed.Store(true)
	if first {
		n.stream.telemetry.committed.Add(ctx, 1, attributes(n.stream.name, n.op.Kind))
		n.stream.history.add(n.op.Kind, time.Since(n.began), n.op.Size, n.stream.options.Durations.Samples)
	}
	n.abandon(ctx)
	return nil
}

// commitAndLease commits, and leases the next number in the same transaction. It returns nil if the next number
// needs a request of its own.
func (n *Number[Tx]) commitAndLease(ctx context.Context, req seqstore.CommitRequest, leaseNext func(*jointLease) (*Number[Tx], error), write Write[Tx]) (*Number[Tx], error) {
	a, leased := &jointLease{make(chan seqstore.LeaseRequest), make(chan Entry, 1)}, make(chan *Number[Tx], 1)
	var group sync.WaitGroup
	defer group.Wait()
	defer close(a.issued)
	group.Go(func() {
		next, _ := leaseNext(a)
		leased <- next
	})
	select {
	case next := <-a.requests:
		_, e, err := n.stream.store.CommitAndLease(ctx, req, next, write)
		if err != nil || e.Seq == 0 {
			return nil, err
		}
		a.issued <- e
		return <-leased, nil
	case <-leased: // no request came, for example because the stream is being closed
		_, err := n.stream.store.Commit(ctx, req, write)
		return nil, err
	}
}

// takeNext returns, once, the number that n's commit leased. It returns nil if n is nil, or leased
// no number.
func (n *Number[Tx]) takeNext() (next *Number[Tx]) {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	next, n.next = n.next, nil
	return next
}

// retry retries a request while its outcome is unknown and the lease lasts, but only for the time that the lease had left
// at the first failure: with renewals, it could otherwise retry forever on a faulty store. An error from the caller's own write
// ends the retries, unless the store says that the connection broke. An error from the context is joined with the last cause.
func retry[Tx any](ctx context.Context, lease *leasing.Lease, write Write[Tx], request func(Write[Tx]) error) (own bool, err error) {
	observed := write
	if write != nil {
		observed = func(ctx context.Context, tx Tx, e Entry) error {
			err := write(ctx, tx, e)
			own = err != nil && (ctx.Err() == nil || !isContextError(err))
			return err
		}
	}
	var cause error
	unknown := false // the outcome of an attempt
	var until time.Time
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		own = false
		err = request(observed)
		own = own && (isContextError(err) || !errors.Is(err, leasing.ErrUnavailable))
		switch {
		case err == nil || own || isAnswer(err):
			return own, err
		case until.IsZero():
			until = time.Now().Add(lease.Remaining())
		}
		unknown = unknown || !abstractions.NotApplied(err)
		if isContextError(err) {
			err = errors.Join(err, cause)
		} else {
			cause = err
		}
		if ctx.Err() != nil || lease.Err() != nil || !time.Now().Add(pause).Before(until) {
			if unknown && abstractions.NotApplied(err) { // the last attempt was not applied, but an earlier attempt may have been applied
				err = providerkit.Partial(err)
			}
			return false, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		case <-lease.Done():
		}
	}
}

// isContextError reports whether an error says only that a context has ended.
func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Release gives the number up, which makes a gap. If completed work is saved, Release ends
// the lease instead, and a cleaner commits the work. It is not an error if the number is no longer
// the caller's, or is committed.
func (n *Number[Tx]) Release(ctx context.Context) error {
	n.mu.Lock()
	if !n.closed {
		n.closed = true
		n.number.givenUp.Store(true)
	}
	n.mu.Unlock()
	err := n.lease.Release(ctx)
	if errors.Is(err, leasing.ErrLost) { // the lease runs out, and a cleaner claims the number
		return nil
	}
	return err
}

// abandon stops renewing, and sends nothing.
func (n *Number[Tx]) abandon(ctx context.Context) { _ = n.lease.Release(ctx) }
