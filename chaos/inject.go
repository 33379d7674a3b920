package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// request sends the request of one operation to the wrapped provider and returns the answer.
type request func(ctx context.Context) (answer any, err error)

// send sends a request to the wrapped provider.
type send func(ctx context.Context, req any) (reply any, err error)

// perform performs an operation with the faults of the plan.
func (p *Provider) perform(ctx context.Context, o operation, apply request) (any, error) {
	if ctx.Err() != nil {
		return apply(ctx)
	}
	f := p.decide(&o)
	answer, err := p.withDelays(ctx, o, f, func(ctx context.Context) (any, error) { return p.inject(ctx, o, f.main, apply) })
	p.recordOutcome(o, err)
	return answer, err
}

// withDelays performs an operation with the delays before and after it, and with a partition that
// begins during the operation.
func (p *Provider) withDelays(ctx context.Context, o operation, f decision, do request) (any, error) {
	if err := p.waitDelays(ctx, o, f, false); err != nil {
		return nil, err
	}
	result, err := do(ctx)
	if f.main == nil || f.main.hasAnswer() {
		if partition := p.partition(o); partition != nil {
			p.note(ctx, o, partition)
			return nil, p.fail(ctx, o, partition, true)
		}
	}
	if err := p.waitDelays(ctx, o, f, true); err != nil {
		return nil, err
	}
	return result, err
}

// inject performs the operation with its main fault.
func (p *Provider) inject(ctx context.Context, o operation, f *occurrence, apply request) (any, error) {
	if f == nil {
		return apply(ctx)
	}
	p.note(ctx, o, f)
	switch f.kind() {
	case FaultStaleRead:
		_, _ = apply(ctx) // record the answer for later stale reads
		return f.answer, nil
	case FaultBroken:
		if !f.after() {
			p.breakLease(ctx, o.name, f.fault())
			return apply(ctx)
		}
		defer p.breakLease(ctx, o.name, f.fault())
		return apply(ctx)
	case FaultAppliedTwice:
		return p.applyTwice(ctx, o, f, apply)
	case FaultCustom:
		return p.runCustom(ctx, o, f, apply)
	case FaultDeliveredLate:
		p.deliver(ctx, f.delay, func(ctx context.Context) error { _, err := apply(ctx); return err })
		return nil, p.injectedError(o, f, abstractions.ErrUnavailable)
	}
	applied := f.appliesFirst()
	if applied {
		_, _ = apply(ctx) // the answer is lost
	}
	return nil, p.fail(ctx, o, f, applied)
}

// breakLease breaks a lease in the same way as an operator. It ignores an error from Break.
func (p *Provider) breakLease(ctx context.Context, name string, f Fault) {
	req := abstractions.BreakRequest{Name: name, Immediate: !f.RunOut}
	if f.RunOut && p.caps.Infinite {
		req.Grace = grace
	}
	_, _ = p.inner.Break(ctx, req)
}

// grace is the time until the end of an infinite lease that is broken with RunOut.
const grace = 30 * time.Second

// applyTwice applies an operation twice, like a client library that retries by itself.
func (p *Provider) applyTwice(ctx context.Context, o operation, f *occurrence, apply request) (any, error) {
	_, first := apply(ctx)
	if !p.pause(ctx, f.delay) {
		return nil, p.injectedError(o, f, p.interrupted(ctx, true))
	}
	answer, second := apply(ctx)
	if err := repeatError(mayHaveApplied(first), second); err != nil {
		return nil, p.injectedError(o, f, err)
	}
	return answer, second
}

// mayHaveApplied reports whether a request with this result may have had an effect.
func mayHaveApplied(err error) bool { return err == nil || !abstractions.NotApplied(err) }

// repeatError returns the error of a repeated operation that was already applied, if the
// second answer would falsely say that nothing was applied. It returns nil if the
// second answer is true.
func repeatError(applied bool, second error) error {
	if !applied || mayHaveApplied(second) {
		return nil
	}
	for _, state := range []error{abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased} {
		if errors.Is(second, state) {
			return nil
		}
	}
	return fmt.Errorf("%w: applied, and refused when it was repeated: %v", abstractions.ErrUnavailable, second)
}

// fail keeps the caller waiting for the time of the fault, and returns the fault's error.
func (p *Provider) fail(ctx context.Context, o operation, f *occurrence, applied bool) error {
	if !p.pause(ctx, f.wait()) {
		return p.injectedError(o, f, p.interrupted(ctx, applied))
	}
	return p.injectedError(o, f, f.fault().failure())
}

// waitDelays waits for all delays before the effect or, if after is set, for all delays after the
// effect.
func (p *Provider) waitDelays(ctx context.Context, o operation, f decision, after bool) error {
	for _, d := range f.delays {
		if d.after() != after {
			continue
		}
		p.note(ctx, o, d)
		if !p.pause(d.waitContext(ctx), d.delay) {
			return p.injectedError(o, d, p.interrupted(ctx, after))
		}
	}
	return nil
}

// waitContext returns the context whose end also ends the fault.
func (f *occurrence) waitContext(ctx context.Context) context.Context {
	if f != nil && f.fault().Heedless {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// pause waits for d. It reports false if ctx ended, or the wrapper was closed, during the pause.
func (p *Provider) pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-p.lifetime.Done():
	}
	return false
}

const (
	// maxLate bounds the pending late operations. Beyond this bound FaultDeliveredLate does not
	// happen.
	maxLate = 1 << 12
	// lateTimeout is the timeout of a late operation at the backend.
	lateTimeout = 10 * time.Second
)

// deliver applies an operation after a delay, in the background. Close drops the operation, as if
// the machine had been switched off.
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

// applyLate applies an operation after a delay. It returns context.Canceled if the wrapper is
// closed during the delay.
func (p *Provider) applyLate(ctx context.Context, after time.Duration, apply func(ctx context.Context) error) error {
	if !p.pause(ctx, after) {
		return context.Canceled
	}
	ctx, cancel := context.WithTimeout(ctx, lateTimeout)
	defer cancel()
	defer context.AfterFunc(p.lifetime, cancel)()
	return apply(ctx)
}

// Settle waits until no late delivery is pending. If ctx ends before that, Settle returns the cause
// of ctx. A test calls Settle after Disable, before it examines the backend.
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
