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
	if p.ending {
		p.report.late.Dropped++
		return
	}
	p.late++
	p.workers.Go(func() {
		outcome := p.applyLate(ctx, after, apply)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.arrived(outcome)
	})
}

// lateness is what became of an operation that was on its way.
type lateness int

const (
	isDropped lateness = iota
	isApplied
	isRefused
)

func (p *Provider) applyLate(ctx context.Context, after time.Duration, apply func(ctx context.Context) error) lateness {
	ctx = context.WithoutCancel(ctx)
	if !p.pause(ctx, after) {
		return isDropped
	}
	ctx, cancel := context.WithTimeout(ctx, lateTimeout)
	defer cancel()
	defer context.AfterFunc(p.lifetime, cancel)()
	if err := apply(ctx); err != nil {
		if errors.Is(err, context.Canceled) {
			return isDropped
		}
		return isRefused
	}
	return isApplied
}

// arrived counts an operation that is no longer on its way. Caller holds mu.
func (p *Provider) arrived(outcome lateness) {
	switch outcome {
	case isApplied:
		p.report.late.Applied++
	case isRefused:
		p.report.late.Refused++
	case isDropped:
		p.report.late.Dropped++
	}
	if p.late--; p.late == 0 && p.settled != nil {
		close(p.settled)
		p.settled = nil
	}
}

// Settle waits until nothing is on its way late, or returns the cause of ctx.
// A test calls it after Disable, before it looks at what the backend holds.
func (p *Provider) Settle(ctx context.Context) error {
	p.mu.Lock()
	if p.late == 0 {
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
