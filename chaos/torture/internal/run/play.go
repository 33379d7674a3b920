package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// Run executes a run and returns its record.
func Run(ctx context.Context, options Options) (Record, error) {
	options, err := options.WithDefaults()
	if err != nil {
		return Record{}, err
	}
	r := &run{stage: stage{options: options, names: options.names(), clock: new(clock), recording: new(history.Recording), resource: newResource(options.Fence)}}
	r.label = fmt.Sprintf("%p", r)
	if err := runLabelled(ctx, goroutineLabel, r.label, r.play); err != nil {
		return Record{}, err
	}
	checkLeftGoroutines(r.label, r.options.Patience, r.clock, r.recording)
	r.progress("checking")
	h := r.recording.Collect()
	h.TTL, h.Backend, h.Free, h.FaultsEnd, h.Closed = r.options.TTL, r.backend, r.free, r.faultsEnd, r.closed
	return Record{savedFormat, r.caps.Provider, portable(r.options), r.caps.Lateness, r.pushes, h}, nil
}

// play executes the run, without the checks of its history.
func (r *run) play(ctx context.Context) error {
	err := r.checkBackend(ctx)
	if err == nil {
		err = r.prepare(ctx)
	}
	if err != nil {
		return errors.Join(err, r.closeAll())
	}
	for _, m := range r.slots {
		m.start(ctx)
	}
	err = r.disturb(ctx)
	for _, m := range r.slots {
		m.runner.endFaults()
	}
	r.faultsEnd = r.now()
	for _, m := range r.slots { // stops one worker after the other: if all stopped at once, a release would wake a random waiter
		m.stop()
		pause(context.Background(), time.Millisecond)
	}
	err = errors.Join(err, r.awaitWorkers(), r.closeAll())
	r.closed = r.now()
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return r.awaitFree(ctx)
}

// checkBackend acquires a lease before any fault. If that fails, the run would be
// meaningless. checkBackend also sets the options that depend on the provider.
func (r *run) checkBackend(ctx context.Context) (err error) {
	provider, err := r.options.open(ctx)
	if err != nil {
		return fmt.Errorf("open a client: %w", err)
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	r.caps = provider.Capabilities()
	_, r.pushes = abstractions.As[abstractions.Waiter](provider)
	r.options = r.options.fit(r.caps)
	manager, err := leasing.NewManager(provider, r.options.Manager)
	if err != nil {
		return err
	}
	if err := manager.Close(ctx); err != nil {
		return err
	}
	if err := r.take(ctx, provider, r.names[0], abstractions.NewID()); err != nil {
		return fmt.Errorf("before anything has gone wrong: %w", err)
	}
	if record, err := provider.Inspect(ctx, abstractions.InspectRequest{Name: r.names[0]}); err == nil && !record.Now.IsZero() {
		r.backend = record.Now.UnixMicro()
	}
	return nil
}

// prepare opens the workers' clients, or starts their processes.
func (r *run) prepare(ctx context.Context) error {
	r.clock.start = time.Now()
	for i := range r.options.Workers {
		if r.options.Process != nil {
			p, err := r.spawn(i)
			if err != nil {
				return err
			}
			r.slots = append(r.slots, &slot{index: i, runner: p})
			continue
		}
		c, err := openClient(ctx, r.options, i, r.clock, r.recording)
		if err != nil {
			return fmt.Errorf("open the client of worker %d: %w", i, err)
		}
		r.slots = append(r.slots, &slot{index: i, runner: newWorker(i, r.options, r.names, c, r.resource)})
	}
	if r.options.Process == nil {
		r.clock.start = time.Now() // the time spent opening the clients does not count
	}
	return nil
}

// awaitFree acquires each name once more, with a client without faults. Meanwhile the
// leases of crashed workers run out.
func (r *run) awaitFree(ctx context.Context) (err error) {
	r.progress("waiting for names")
	provider, err := r.options.open(ctx)
	if err != nil {
		return fmt.Errorf("open a client for the check of leaks: %w", err)
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	limits := r.options.Limits(r.caps.Lateness, r.pushes)
	by := r.closed + r.options.TTL + limits.Margin(r.options.TTL) + r.caps.Lateness.After(r.options.TTL) + r.options.Patience
	left, ids, refusals := r.names, map[string]string{}, map[string]error{}
	for _, name := range left {
		ids[name] = abstractions.NewID()
	}
	for len(left) > 0 && r.now() < by && ctx.Err() == nil {
		var held []string
		for _, name := range left {
			if refusals[name] = r.take(ctx, provider, name, ids[name]); refusals[name] == nil {
				r.free = append(r.free, history.FreeAt{Name: name, At: r.now(), By: by})
			} else {
				held = append(held, name)
			}
		}
		left = held
		pause(ctx, 20*time.Millisecond)
	}
	for _, name := range left {
		if refusal := refusals[name]; refusal != nil && !errors.Is(refusal, leasing.ErrHeld) {
			return fmt.Errorf("whether %q became free is unknown: %w", name, refusal)
		}
		r.free = append(r.free, history.FreeAt{Name: name, By: by})
	}
	return context.Cause(ctx)
}
