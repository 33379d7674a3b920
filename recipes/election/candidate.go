package election

import (
	"context"
	"errors"
	"sync"

	"github.com/distributedleasing/leasing"
)

// ErrResigned is the cause with which Resign ends a term.
var ErrResigned = errors.New("election: resigned")

// Candidate stands in an election. It is safe for concurrent use.
type Candidate struct {
	manager leasing.Manager
	options Options

	mu       sync.Mutex
	resigned bool
	end      context.CancelCauseFunc // of the Run under way; nil while there is none
	over     chan struct{}           // closed when that Run has returned
	lease    leasing.Lease           // of the latest term; nil before the first
}

// New returns a candidate. Nothing happens before Run.
func New(manager leasing.Manager, options Options) (*Candidate, error) {
	if manager == nil {
		return nil, &leasing.InvalidError{Field: "manager", Value: nil, Want: "a leasing.Manager"}
	}
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Candidate{manager: manager, options: options}, nil
}

// Run makes a candidate and runs it. See Candidate.Run.
func Run(ctx context.Context, manager leasing.Manager, options Options) error {
	candidate, err := New(manager, options)
	if err != nil {
		return err
	}
	return candidate.Run(ctx)
}

// Run stands for election, term after term, until one of these:
//
//   - ctx ends. Run returns its cause, joined with what then went wrong: an
//     error of OnElected that is more than the end of its context, or a lease
//     that could not be released.
//   - Resign was called. Run returns nil, or what went wrong likewise.
//   - OnElected has returned an error of its own accord, and StandAgain is not
//     set. Run returns that error.
//   - Waiting can't help (the manager is closed, access is denied, ...). Run
//     returns the error of Manager.Acquire.
//
// When it returns, OnElected has returned and the lease is released. Only one
// Run of a candidate may be under way at a time.
func (c *Candidate) Run(ctx context.Context) error {
	ctx, end, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return c.campaign(ctx)
}

// Resign withdraws the candidate for good. It ends the term under way and
// waits until OnElected has returned, the lease is released and Run has
// returned. If ctx ends first, Resign returns its cause, and the rest goes on.
// Inside OnElected, call it with OnElected's context, or it waits for itself.
func (c *Candidate) Resign(ctx context.Context) error {
	c.mu.Lock()
	c.resigned = true
	end, over := c.end, c.over
	c.mu.Unlock()
	if end == nil {
		return nil
	}
	end(ErrResigned)
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// IsLeader reports whether the candidate leads: it holds a lease that can be
// trusted at this moment.
func (c *Candidate) IsLeader() bool {
	c.mu.Lock()
	lease := c.lease
	c.mu.Unlock()
	return lease != nil && lease.Err() == nil
}

// Leader returns who leads, be it this candidate or another. See Current.
func (c *Candidate) Leader(ctx context.Context) (Leader, error) {
	return Current(ctx, c.manager, c.options.Name)
}

// begin marks the candidate as running, under a context that Resign can end.
func (c *Candidate) begin(ctx context.Context) (context.Context, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil {
		return nil, nil, errors.New("election: this candidate already runs")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	c.end, c.over = cancel, over
	if c.resigned {
		cancel(ErrResigned)
	}
	return ctx, func() {
		cancel(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.end = nil
		close(over)
	}, nil
}

func (c *Candidate) lead(lease leasing.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lease = lease
}
