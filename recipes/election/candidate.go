package election

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/distributedleasing/leasing"
)

// ErrResigned is the cause with which Resign ends a term.
var ErrResigned = errors.New("election: resigned")

// Candidate stands in an election. It is safe for concurrent use.
type Candidate struct {
	manager   *leasing.Manager
	options   Options
	resignCtx context.Context // ends with Resign
	resign    context.CancelFunc
	running   chan struct{}                 // full while a call of Run is in progress
	lease     atomic.Pointer[leasing.Lease] // of the latest term; nil before the first
}

// New returns a candidate. It does nothing until Run is called.
func New(manager *leasing.Manager, options Options) (*Candidate, error) {
	if manager == nil {
		return nil, &leasing.InvalidError{Field: "manager", Value: nil, Want: "a leasing.Manager"}
	}
	options.Lease = options.Lease.Over(manager.AcquireOptions())
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	c := &Candidate{manager: manager, options: options, running: make(chan struct{}, 1)}
	c.resignCtx, c.resign = context.WithCancel(context.Background())
	return c, nil
}

// Run makes a candidate and calls its Run. See Candidate.Run.
func Run(ctx context.Context, manager *leasing.Manager, options Options) error {
	candidate, err := New(manager, options)
	if err != nil {
		return err
	}
	return candidate.Run(ctx)
}

// Run stands for election, term after term, until one of these:
//
//   - ctx ends. Run returns its cause, joined with the errors that followed: an
//     error of OnElected other than the end of its context, or a lease
//     that could not be released.
//   - Resign was called. Run returns nil, or the errors that followed.
//   - OnElected has returned an error of its own accord, and StandAgain is not
//     set. Run returns that error.
//   - Waiting is pointless (the manager is closed, access is denied, ...).
//     Run returns the error of Manager.Acquire.
//
// When it returns, OnElected has returned and the lease is released. Only one
// Run of a candidate may be under way at a time.
func (c *Candidate) Run(ctx context.Context) error {
	select {
	case c.running <- struct{}{}:
		defer func() { <-c.running }()
	default:
		return errors.New("election: this candidate already runs")
	}
	if c.resignCtx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.resignCtx, func() { cancel(ErrResigned) })()
	return c.stand(ctx)
}

// Resign withdraws the candidate for good. It ends the term under way and
// waits until OnElected has returned, the lease is released and Run has
// returned. If ctx ends first, Resign returns its cause and the rest continues
// in the background. Inside OnElected, call it with OnElected's context;
// otherwise it waits for itself.
func (c *Candidate) Resign(ctx context.Context) error {
	c.resign()
	if len(c.running) == 0 {
		return nil
	}
	select {
	case c.running <- struct{}{}:
		<-c.running
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// IsLeader reports whether the candidate leads: it holds a lease that can be
// trusted at this moment.
func (c *Candidate) IsLeader() bool {
	lease := c.lease.Load()
	return lease != nil && lease.Err() == nil
}

// Leader returns the present leader, this candidate or another. See Current.
func (c *Candidate) Leader(ctx context.Context) (Leader, error) {
	return Current(ctx, c.manager, c.options.Name)
}
