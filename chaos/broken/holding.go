package broken

import (
	"context"
	"errors"
	"time"

	leasing "github.com/distributedleasing/leasing/abstractions"
)

// window is the time between the two steps of a racer, long enough for others
// to step in.
const window = 20 * time.Millisecond

// racer looks whether a name is free, and then takes it without looking again.
type racer struct{ plain }

func newRacer(p leasing.Provider) leasing.Provider { return racer{plain{p}} }

func (p racer) Acquire(ctx context.Context, req leasing.AcquireRequest) (leasing.Grant, error) {
	record, err := p.Inspect(ctx, leasing.InspectRequest{Name: req.Name})
	if err != nil || record.Held {
		return p.Provider.Acquire(ctx, req)
	}
	timer := time.NewTimer(window)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return leasing.Grant{}, ctx.Err()
	}
	grant, err := p.Provider.Acquire(ctx, req)
	if errors.Is(err, leasing.ErrHeld) {
		if _, err := p.Break(ctx, leasing.BreakRequest{Name: req.Name, Immediate: true}); err != nil {
			return leasing.Grant{}, err
		}
		return p.Provider.Acquire(ctx, req)
	}
	return grant, err
}

// reviver renews a lease that has ended, beside its new holder.
type reviver struct{ plain }

func newReviver(p leasing.Provider) leasing.Provider { return reviver{plain{p}} }

func (p reviver) Renew(ctx context.Context, req leasing.RenewRequest) (leasing.Grant, error) {
	grant, err := p.Provider.Renew(ctx, req)
	if errors.Is(err, leasing.ErrLost) {
		return leasing.Grant(req), nil
	}
	return grant, err
}

// untimely keeps a lease for another time than the one that it grants.
type untimely struct {
	plain
	kept func(ttl time.Duration) time.Duration
}

// newHasty keeps leases for half of their time.
func newHasty(p leasing.Provider) leasing.Provider {
	return &untimely{plain{p}, func(ttl time.Duration) time.Duration { return ttl / 2 }}
}

// newTardy keeps leases for three times their time.
func newTardy(p leasing.Provider) leasing.Provider {
	return &untimely{plain{p}, func(ttl time.Duration) time.Duration { return 3 * ttl }}
}

// stored is the TTL that the backend is asked for.
func (p *untimely) stored(ttl time.Duration) time.Duration {
	c := p.Capabilities()
	if ttl == leasing.Infinite || ttl < c.MinTTL {
		return ttl
	}
	kept := max(p.kept(ttl), c.MinTTL)
	if c.MaxTTL > 0 {
		kept = min(kept, max(ttl, c.MaxTTL))
	}
	if c.Granularity > 0 {
		kept -= kept % c.Granularity
	}
	return kept
}

func (p *untimely) Acquire(ctx context.Context, req leasing.AcquireRequest) (leasing.Grant, error) {
	ttl := req.TTL
	req.TTL = p.stored(ttl)
	grant, err := p.Provider.Acquire(ctx, req)
	return lasting(grant, ttl), err
}

func (p *untimely) Renew(ctx context.Context, req leasing.RenewRequest) (leasing.Grant, error) {
	ttl := req.TTL
	req.TTL = p.stored(ttl)
	grant, err := p.Provider.Renew(ctx, req)
	return lasting(grant, ttl), err
}

// lasting makes a grant claim another TTL than it has.
func lasting(grant leasing.Grant, ttl time.Duration) leasing.Grant {
	if grant.ID != "" {
		grant.TTL = ttl
	}
	return grant
}

// immortal stores a lease so that it never expires. Where the backend has no
// infinite leases it is not broken.
type immortal struct{ plain }

func newImmortal(p leasing.Provider) leasing.Provider {
	if !p.Capabilities().Infinite {
		return plain{p}
	}
	return immortal{plain{p}}
}

func (p immortal) Acquire(ctx context.Context, req leasing.AcquireRequest) (leasing.Grant, error) {
	ttl := req.TTL
	if ttl >= p.Capabilities().MinTTL {
		req.TTL = leasing.Infinite
	}
	grant, err := p.Provider.Acquire(ctx, req)
	return lasting(grant, ttl), err
}

func (p immortal) Renew(ctx context.Context, req leasing.RenewRequest) (leasing.Grant, error) {
	ttl := req.TTL
	if ttl >= p.Capabilities().MinTTL {
		req.TTL = leasing.Infinite
	}
	grant, err := p.Provider.Renew(ctx, req)
	return lasting(grant, ttl), err
}
