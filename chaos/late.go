package chaos

import (
	"context"
	"errors"
	"time"
)

const (
	// maxLate bounds the pending late operations. Beyond this bound FaultDeliveredLate does not
	// happen.
	maxLate = 1 << 12
	// lateTimeout bounds a late operation at the backend.
	lateTimeout = 10 * time.Second
)

// deliver applies an operation later, after its caller has got an answer. Close drops the
// operation, like the network of a machine that is switched off.
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

// applyLate returns context.Canceled if the wrapper was closed before.
func (p *Provider) applyLate(ctx context.Context, after time.Duration, apply func(ctx context.Context) error) error {
	if !p.pause(ctx, after) {
		return context.Canceled
	}
	ctx, cancel := context.WithTimeout(ctx, lateTimeout)
	defer cancel()
	defer context.AfterFunc(p.lifetime, cancel)()
	return apply(ctx)
}

// Settle waits until no late delivery is pending, or returns the cause of ctx. A test calls Settle
// after Disable, before it examines the backend.
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
