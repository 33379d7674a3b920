package main

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/samples/internal/journal"
	"github.com/distributedleasing/leasing/samples/internal/place"
)

const (
	// effort is how long it takes to compose a reply.
	effort = 200 * time.Millisecond
	// again is how soon a delivery that was abandoned comes again.
	again = 100 * time.Millisecond
	// short is the TTL of the lease of the worker that stalls.
	short = time.Second
)

// outcome is what a worker does with a delivery.
type outcome int

const (
	abandoned outcome = iota // it comes again
	acked
)

// worker answers messages. It is safe for concurrent use.
type worker struct {
	name    string
	manager leasing.Manager
	close   func() error
	outbox  journal.Journal
	log     *log
}

func newWorker(ctx context.Context, p place.Place, name string, outbox journal.Journal, log *log) (*worker, error) {
	manager, closeManager, err := p.Manager(ctx, leasing.Options{Owner: name})
	if err != nil {
		return nil, err
	}
	return &worker{name: name, manager: manager, close: closeManager, outbox: outbox, log: log}, nil
}

// take takes a delivery in, again and again until it is acknowledged.
func (w *worker) take(ctx context.Context, message string) error {
	for {
		outcome, err := w.handle(ctx, message)
		if err != nil || outcome == acked {
			return err
		}
		if err := wait(ctx, again); err != nil {
			return err
		}
	}
}

// handle answers a message, or leaves it to the worker that does.
func (w *worker) handle(ctx context.Context, message string) (_ outcome, err error) {
	name := "reply/" + message
	lease, err := w.manager.TryAcquire(ctx, name, w.options(message))
	if errors.Is(err, leasing.ErrHeld) || errors.Is(err, leasing.ErrUnavailable) {
		w.log.abandoned()
		return abandoned, nil // another worker will produce the reply, or it is delivered again
	}
	if err != nil {
		return abandoned, err
	}
	defer func() {
		if released := lease.Release(ctx); !errors.Is(released, leasing.ErrLost) { // of a loss the outbox takes care
			err = errors.Join(err, released)
		}
	}()
	answered, err := w.outbox.Has(lease.Context(), name, lease.Token(), message)
	if err != nil {
		return abandoned, unlessLost(lease, err)
	}
	if answered {
		w.log.answered(message)
		return acked, nil
	}
	w.log.composes(w.name, message)
	if w.log.stall(message) {
		return abandoned, w.stall(ctx, message, lease)
	}
	if err := wait(lease.Context(), effort); err != nil { // composing it
		return abandoned, unlessLost(lease, err)
	}
	return w.send(lease.Context(), message, lease)
}

// send puts the reply into the outbox. Its context is the lease's, so that
// nothing is sent once the lease is lost.
func (w *worker) send(ctx context.Context, message string, lease leasing.Lease) (outcome, error) {
	first, err := w.outbox.Note(ctx, lease.Name(), lease.Token(), message, w.name)
	switch {
	case first:
		w.log.sent(w.name, message)
	case err != nil:
		return abandoned, unlessLost(lease, err)
	}
	return acked, nil
}

// unlessLost returns an error unless it came of the loss of the lease. What
// became of the reply then is seen when the delivery comes again.
func unlessLost(lease leasing.Lease, err error) error {
	if errors.Is(lease.Err(), leasing.ErrLost) {
		return nil
	}
	return err
}

// stall is what happens to a worker whose machine is cut off for a while: its
// lease runs out, somebody else replies, and then its own reply, which had
// waited in the network, reaches the outbox. No application sends anything with
// a lost lease on purpose, as here.
func (w *worker) stall(ctx context.Context, message string, lease leasing.Lease) error {
	<-lease.Done()
	w.log.lost(w.name, message, lease.Err())
	if err := w.log.awaitReply(ctx); err != nil {
		return err
	}
	first, err := w.outbox.Note(ctx, lease.Name(), lease.Token(), message, w.name)
	if err == nil {
		w.log.late(w.name, message, first)
		return nil
	}
	if errors.Is(err, leasing.ErrStale) {
		w.log.refused(w.name, message, err)
		return nil
	}
	return err
}

// options are those of the lease for a message. Without renewal it is as if none
// got through.
func (w *worker) options(message string) *leasing.AcquireOptions {
	if w.log.mayStall(message) {
		return &leasing.AcquireOptions{TTL: short, NoAutoRenew: true}
	}
	return &leasing.AcquireOptions{TTL: 15 * time.Second}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
