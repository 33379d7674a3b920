package chaos

import (
	"context"
	"errors"
	"time"
)

const (
	// maxLate is how many operations may be on their way late. Beyond it
	// FaultDeliveredLate does not happen.
	maxLate = 1 << 12
	// lateTimeout bounds a late operation at the backend.
	lateTimeout = 10 * time.Second
)

// deliver applies an operation after a while, when its caller has long gone.
// Close drops it, as a network does whose machine is switched off.
func (p *Provider) deliver(ctx context.Context, after time.Duration, apply func(ctx context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := &p.report.Late
	if p.ending {
		late.Dropped++
		return
	}
	late.Pending++
	p.workers.Go(func() {
		err := p.applyLate(context.WithoutCancel(ctx), after, apply)
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case err == nil:
			late.Applied++
		case errors.Is(err, context.Canceled):
			late.Dropped++
		default:
			late.Refused++
		}
		if late.Pending--; late.Pending == 0 && p.settled != nil {
			close(p.settled)
			p.settled = nil
		}
	})
}

// applyLate returns context.Canceled if the wrapper was closed first.
func (p *Provider) applyLate(ctx context.Context, after time.Duration, apply func(ctx context.Context) error) error {
	if !p.pause(ctx, after) {
		return context.Canceled
	}
	ctx, cancel := context.WithTimeout(ctx, lateTimeout)
	defer cancel()
	defer context.AfterFunc(p.lifetime, cancel)()
	return apply(ctx)
}

// Settle waits until nothing is on its way late, or returns the cause of ctx.
// A test calls it after Disable, before it looks at what the backend holds.
func (p *Provider) Settle(ctx context.Context) error {
	p.mu.Lock()
	if p.report.Late.Pending == 0 {
		p.mu.Unlock()
		return nil
	}
	if p.settled == nil {
		p.settled = make(chan struct{})
	}
	settled := p.settled
	p.mu.Unlock()
	select {
	case <-settled:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
