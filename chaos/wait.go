package chaos

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
)

// wait registers a waiter, with the plan's faults in the registration and in the wake-ups. If the plan has partitions, it
// relays the wake-ups even without a current fault, since a partition may begin while the registration lasts.
func (p *Provider) wait(ctx context.Context, o operation, req abstractions.WaitRequest, send send) (any, error) {
	register := func(ctx context.Context) (any, error) { return send(ctx, req) }
	if ctx.Err() != nil || req.Validate(p.caps) != nil {
		return register(ctx)
	}
	var f decision
	if !p.inactive.Load() {
		f = p.decide(&o)
	}
	wakeups, err := p.withDelays(ctx, o, f, func(ctx context.Context) (any, error) {
		if f.main != nil && !traits[f.main.kind()].wakeups {
			return p.inject(ctx, o, f.main, register)
		}
		wakeups, err := register(ctx)
		if err != nil || f.main == nil && !p.partitions {
			return wakeups, err
		}
		return p.relayTo(ctx, o, f.main, wakeups.(abstractions.Wakeups)), nil
	})
	p.recordOutcome(o, err)
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
		wake(to)
		if f != nil && f.kind() == FaultAppliedTwice {
			if !p.pause(ctx, f.delay) {
				return
			}
			wake(to)
		}
	}
}

func wake(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default: // a wake-up is already pending
	}
}
