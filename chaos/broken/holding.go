package broken

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// window is the time between the two steps of a racer, long enough for others
// to step in.
const window = 20 * time.Millisecond

// racer looks whether a name is free, and then takes it without looking again.
type racer struct{ plain }

func newRacer(p abstractions.Provider) abstractions.Provider { return racer{plain{p}} }

func (p racer) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
	if err != nil || record.Held {
		return p.Provider.Acquire(ctx, req)
	}
	timer := time.NewTimer(window)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return abstractions.Grant{}, ctx.Err()
	}
	grant, err := p.Provider.Acquire(ctx, req)
	if errors.Is(err, abstractions.ErrHeld) {
		if _, err := p.Break(ctx, abstractions.BreakRequest{Name: req.Name, Immediate: true}); err != nil {
			return abstractions.Grant{}, err
		}
		return p.Provider.Acquire(ctx, req)
	}
	return grant, err
}

// reviver renews a lease that has ended, beside its new holder.
type reviver struct{ plain }

func newReviver(p abstractions.Provider) abstractions.Provider { return reviver{plain{p}} }

func (p reviver) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	grant, err := p.Provider.Renew(ctx, req)
	if errors.Is(err, abstractions.ErrLost) {
		return abstractions.Grant{Name: req.Name, ID: req.ID, Token: req.Token, TTL: req.TTL, State: req.State}, nil
	}
	return grant, err
}

// untimely keeps a lease for another time than the one that it grants.
type untimely struct {
	plain
	kept func(ttl time.Duration) time.Duration
}

// newHasty keeps leases for half of their time.
func newHasty(p abstractions.Provider) abstractions.Provider {
	return &untimely{plain{p}, func(ttl time.Duration) time.Duration { return ttl / 2 }}
}

// newTardy keeps leases for three times their time.
func newTardy(p abstractions.Provider) abstractions.Provider {
	return &untimely{plain{p}, func(ttl time.Duration) time.Duration { return 3 * ttl }}
}

// stored is the TTL that the backend is asked for.
func (p *untimely) stored(ttl time.Duration) time.Duration {
	c := p.Capabilities()
	if ttl == abstractions.Infinite || ttl < c.MinTTL {
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

func (p *untimely) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	ttl := req.TTL
	req.TTL = p.stored(ttl)
	grant, err := p.Provider.Acquire(ctx, req)
	return lasting(grant, ttl), err
}

func (p *untimely) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	ttl := req.TTL
	req.TTL = p.stored(ttl)
	grant, err := p.Provider.Renew(ctx, req)
	return lasting(grant, ttl), err
}

// lasting makes a grant claim another TTL than it has.
func lasting(grant abstractions.Grant, ttl time.Duration) abstractions.Grant {
	if grant.ID != "" {
		grant.TTL = ttl
	}
	return grant
}

// immortal stores a lease so that it never expires. Where the backend has no
// infinite leases it is not broken.
type immortal struct{ plain }

func newImmortal(p abstractions.Provider) abstractions.Provider {
	if !p.Capabilities().Infinite {
		return plain{p}
	}
	return immortal{plain{p}}
}

func (p immortal) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	ttl := req.TTL
	if ttl >= p.Capabilities().MinTTL {
		req.TTL = abstractions.Infinite
	}
	grant, err := p.Provider.Acquire(ctx, req)
	return lasting(grant, ttl), err
}

func (p immortal) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	ttl := req.TTL
	if ttl >= p.Capabilities().MinTTL {
		req.TTL = abstractions.Infinite
	}
	grant, err := p.Provider.Renew(ctx, req)
	return lasting(grant, ttl), err
}
