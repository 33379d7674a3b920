package broken

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// This file has the defects that concern the holder of a name, and the time for which the name is held.

// takesAfterLooking checks whether a name is free, and then takes it without a second check.
// Another claim may take the name in between.
func takesAfterLooking(p abstractions.Provider) abstractions.Provider {
	const between = 20 * time.Millisecond
	return withHandler(p, func(ctx context.Context, x *providerkit.Exchange) (any, error) {
		req, ok := x.Request.(abstractions.AcquireRequest)
		if !ok {
			return x.Send(ctx, x.Request)
		}
		record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
		if err != nil || record.Held {
			return p.Acquire(ctx, req)
		}
		timer := time.NewTimer(between)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		grant, err := p.Acquire(ctx, req)
		if !errors.Is(err, abstractions.ErrHeld) {
			return grant, err
		}
		if _, err := p.Break(ctx, abstractions.BreakRequest{Name: req.Name, Immediate: true}); err != nil {
			return nil, err
		}
		return p.Acquire(ctx, req)
	})
}

// renewsLostLeases renews a lease that has ended, even if the name has a new holder.
func renewsLostLeases(p abstractions.Provider) abstractions.Provider {
	return withHandler(p, func(ctx context.Context, x *providerkit.Exchange) (any, error) {
		reply, err := x.Send(ctx, x.Request)
		if req, ok := x.Request.(abstractions.RenewRequest); ok && errors.Is(err, abstractions.ErrLost) {
			return requestedGrant(req), nil
		}
		return reply, err
	})
}

// requestedGrant returns the grant that a renewal requests.
func requestedGrant(req abstractions.RenewRequest) abstractions.Grant {
	return abstractions.Grant{Name: req.Name, ID: req.ID, Token: req.Token, TTL: req.TTL, State: req.State}
}

// skipsRenewals answers every second renewal, beginning with the first, without a request to
// the backend. A lost lease then seems valid, and its holder notices the loss one renewal late.
func skipsRenewals(p abstractions.Provider) abstractions.Provider {
	var mu sync.Mutex
	renewals := map[string]int{} // by claim
	return withHandler(p, func(ctx context.Context, x *providerkit.Exchange) (any, error) {
		req, ok := x.Request.(abstractions.RenewRequest)
		if !ok {
			return x.Send(ctx, x.Request)
		}
		mu.Lock()
		renewals[req.ID]++
		skip := renewals[req.ID]%2 == 1
		mu.Unlock()
		if skip && req.TTL != abstractions.Infinite && req.Validate(p.Capabilities()) == nil && ctx.Err() == nil {
			return requestedGrant(req), nil
		}
		return p.Renew(ctx, req)
	})
}

// expiresEarly keeps leases for half of their TTL.
func expiresEarly(p abstractions.Provider) abstractions.Provider {
	return storesFor(p, func(ttl time.Duration) time.Duration { return ttl / 2 })
}

// expiresLate keeps leases for three times their TTL.
func expiresLate(p abstractions.Provider) abstractions.Provider {
	return storesFor(p, func(ttl time.Duration) time.Duration { return 3 * ttl })
}

// neverExpires stores each lease as an infinite lease. It has no effect on a backend without
// infinite leases.
func neverExpires(p abstractions.Provider) abstractions.Provider {
	if !p.Capabilities().Infinite {
		return withoutAbilities{p}
	}
	return storesFor(p, func(time.Duration) time.Duration { return abstractions.Infinite })
}

// storesFor stores a lease for a time that differs from the granted TTL.
func storesFor(p abstractions.Provider, change func(ttl time.Duration) time.Duration) abstractions.Provider {
	c := p.Capabilities()
	stored := func(ttl time.Duration) time.Duration {
		if ttl == abstractions.Infinite || ttl < c.MinTTL {
			return ttl
		}
		stored := max(change(ttl), c.MinTTL)
		if stored == abstractions.Infinite {
			return stored
		}
		if c.MaxTTL > 0 {
			stored = min(stored, max(ttl, c.MaxTTL))
		}
		if c.Granularity > 0 {
			stored -= stored % c.Granularity
		}
		return stored
	}
	granted := func(grant abstractions.Grant, ttl time.Duration) abstractions.Grant {
		if grant.ID != "" {
			grant.TTL = ttl
		}
		return grant
	}
	return withHandler(p, func(ctx context.Context, x *providerkit.Exchange) (any, error) {
		switch req := x.Request.(type) {
		case abstractions.AcquireRequest:
			ttl := req.TTL
			req.TTL = stored(ttl)
			grant, err := p.Acquire(ctx, req)
			return granted(grant, ttl), err
		case abstractions.RenewRequest:
			ttl := req.TTL
			req.TTL = stored(ttl)
			grant, err := p.Renew(ctx, req)
			return granted(grant, ttl), err
		}
		return x.Send(ctx, x.Request)
	})
}

// resetsTokens numbers the leases of a name from 1 again after each release.
func resetsTokens(p abstractions.Provider) abstractions.Provider {
	var mu sync.Mutex
	last, hidden := map[string]int64{}, map[string]int64{} // by name: the backend's token, and the number subtracted from it
	return withHandler(p, func(ctx context.Context, x *providerkit.Exchange) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		switch req := x.Request.(type) {
		case abstractions.AcquireRequest:
			grant, err := p.Acquire(ctx, req)
			if err == nil {
				last[req.Name] = grant.Token
				grant.Token -= hidden[req.Name]
			}
			return grant, err
		case abstractions.RenewRequest:
			shown := req.Token
			req.Token += hidden[req.Name]
			grant, err := p.Renew(ctx, req)
			if err == nil {
				grant.Token = shown
			}
			return grant, err
		case abstractions.ReleaseRequest:
			req.Token += hidden[req.Name]
			record, _ := p.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
			err := p.Release(ctx, req)
			if err == nil && record.Held && record.Fingerprint == abstractions.FingerprintOf(req.ID) {
				hidden[req.Name] = last[req.Name]
			}
			return nil, err
		case abstractions.InspectRequest:
			record, err := p.Inspect(ctx, req)
			record.Token = max(0, record.Token-hidden[req.Name])
			return record, err
		}
		return x.Send(ctx, x.Request)
	})
}
