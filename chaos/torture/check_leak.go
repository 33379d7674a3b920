package torture

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// overdue finds claims that were refused because of a lease that must have run out
// before the request. It skips leases whose end is unknown.
func (n *named) overdue() {
	ends := map[string]time.Duration{} // of each claim's leases, at the latest
	for id, c := range n.claims {
		for _, o := range c.answered {
			switch {
			case o.Result == resultUnknown && o.Verb != "release":
				ends[id] = never
			case o.extends():
				ends[id] = max(ends[id], n.over(o))
			}
		}
	}
	for _, o := range n.operations {
		end, ok := ends[o.Holder]
		if ok && o.Layer == layerBackend && o.Result == resultHeld && o.Call > end {
			n.violated(o.Return, "claim %s was refused because of claim %s, whose lease must have run out %s before", o.Claim, o.Holder, seconds(o.Call-end))
			delete(ends, o.Holder) // one violation for each lease is enough
		}
	}
}

// over returns the latest end of a lease that a request has granted or renewed. Where clients watch leases,
// a lease ends only when a client has looked: see awaitFree.
func (v *verification) over(o *operation) time.Duration {
	switch {
	case o.TTL == leasing.Infinite:
		return never
	case v.lateness.Watched:
		return never - 1 // it runs out all the same
	}
	return o.Return + o.TTL + v.margin(o.TTL) + v.lateness.After(o.TTL)
}

// kept finds names that were not free after the end of the run.
func (v *verification) kept() {
	for _, f := range v.h.Free {
		if f.At == 0 || f.At > f.By {
			text := fmt.Sprintf("the name has no holder, but was not free %s after the last client was closed", seconds(f.By-v.h.Closed))
			v.found = append(v.found, Violation{Check: checkLeak, Name: f.Name, At: f.By, Text: text})
		}
	}
}

// awaitFree acquires each name once more, with a client without faults. In the meantime the
// leases that crashed workers have left run out.
func (r *run) awaitFree(ctx context.Context) (err error) {
	r.progress("waiting for names")
	provider, err := r.options.open(ctx)
	if err != nil {
		return fmt.Errorf("open a client for the check of leaks: %w", err)
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	by := r.closed + r.options.TTL + r.options.margin(r.options.TTL) + r.caps.Lateness.After(r.options.TTL) + r.options.Patience
	left, ids, refusals := r.names, map[string]string{}, map[string]error{}
	for _, name := range left {
		ids[name] = abstractions.NewID()
	}
	for len(left) > 0 && r.now() < by && ctx.Err() == nil {
		var held []string
		for _, name := range left {
			if refusals[name] = r.take(ctx, provider, name, ids[name]); refusals[name] == nil {
				r.free = append(r.free, freeAt{Name: name, At: r.now(), By: by})
			} else {
				held = append(held, name)
			}
		}
		left = held
		pause(ctx, 20*time.Millisecond)
	}
	for _, name := range left {
		if refusal := refusals[name]; refusal != nil && !errors.Is(refusal, leasing.ErrHeld) {
			return fmt.Errorf("whether %q became free can't be told: %w", name, refusal)
		}
		r.free = append(r.free, freeAt{Name: name, By: by})
	}
	return context.Cause(ctx)
}

// take acquires and then releases a name. It returns the error of the acquire.
func (r *run) take(ctx context.Context, provider leasing.Provider, name, id string) error {
	ctx, cancel := context.WithTimeout(ctx, r.options.Manager.Tuning.RequestTimeout+r.options.Patience)
	defer cancel()
	_, err := provider.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: id, Owner: "torture", TTL: r.options.TTL})
	if err == nil {
		_ = provider.Release(ctx, abstractions.ReleaseRequest{Name: name, ID: id})
	}
	return err
}
