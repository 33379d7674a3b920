package chaos

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
)

// Wait is the wrapped provider's, with the plan's faults: in the registration and in the wake-ups.
func (p *Provider) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	inactive := p.inactive.Load()
	switch {
	case p.closed.Load():
		return abstractions.Wakeups{}, abstractions.ErrClosed
	case p.waiter == nil:
		return abstractions.Wakeups{}, p.wrap(operation{op: OpWait, name: req.Name}, abstractions.ErrUnsupported)
	case inactive && !p.partitions:
		return p.waiter.Wait(ctx, req)
	}
	return p.wait(ctx, req, inactive)
}

// wait relays the wake-ups to their reader. It does so even without a current fault, since a
// partition may begin while the registration lasts.
func (p *Provider) wait(ctx context.Context, req abstractions.WaitRequest, inactive bool) (abstractions.Wakeups, error) {
	register := func(ctx context.Context) (abstractions.Wakeups, error) { return p.waiter.Wait(ctx, req) }
	if ctx.Err() != nil || req.Validate(p.caps) != nil {
		return register(ctx)
	}
	o := operation{op: OpWait, name: req.Name, id: req.ID}
	var f decision
	if !inactive {
		f = p.decide(&o)
	}
	wakeups, err := withDelays(ctx, p, o, f, func(ctx context.Context) (abstractions.Wakeups, error) {
		if f.main != nil && !traits[f.main.kind()].hints {
			return inject(ctx, p, o, f.main, register)
		}
		wakeups, err := register(ctx)
		if err != nil || f.main == nil && !p.partitions {
			return wakeups, err
		}
		return p.relayTo(ctx, o, f.main, wakeups), nil
	})
	p.ended(o, err)
	return wakeups, err
}

// relayTo applies the fault to the wake-ups while the registration lasts. After Close there are no
// wake-ups.
func (p *Provider) relayTo(ctx context.Context, o operation, f *occurrence, from abstractions.Wakeups) abstractions.Wakeups {
	to := make(chan struct{}, 1)
	if f != nil {
		p.note(ctx, o, f)
	}
	if f == nil || f.kind() != FaultWakeupsLost {
		p.spawn(func() { p.relay(ctx, o, f, from.C, to) })
	}
	return abstractions.Wakeups{C: to}
}

func (p *Provider) relay(ctx context.Context, o operation, f *occurrence, from <-chan struct{}, to chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.lifetime.Done():
			return
		case <-from:
		}
		if partition := p.partition(o); partition != nil {
			p.note(ctx, o, partition)
			continue
		}
		if f != nil && f.kind() == FaultDeliveredLate && !p.pause(ctx, f.delay) {
			return
		}
		hint(to)
		if f != nil && f.kind() == FaultAppliedTwice {
			if !p.pause(ctx, f.delay) {
				return
			}
			hint(to)
		}
	}
}

func hint(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default: // a wake-up is already pending
	}
}
