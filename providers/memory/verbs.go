package memlease

import (
	"context"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Acquire makes one attempt to take a name: see leasing.Provider.
func (p *Provider) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	if err := admit(ctx, p, req); err != nil {
		return abstractions.Grant{}, err
	}
	s := p.shardOf(req.Name)
	s.Lock()
	defer s.Unlock()
	now := p.now()
	r := s.need(req.Name, now, p.options.Retention)
	if _, gone := r.retired(req.ID); gone || r.broken(req.ID) {
		return abstractions.Grant{}, abstractions.ErrReleased
	}
	if r.held(now) {
		if r.id != req.ID {
			return abstractions.Grant{}, &abstractions.HeldError{Holder: p.show(r, now)}
		}
		r.prolong(req.TTL, now)
		return r.grant(req.TTL), nil
	}
	p.noteExpiry(r)
	r.begin(req, s.floor, now)
	p.note(r, abstractions.HistoryAcquired, now)
	return r.grant(req.TTL), nil
}

// prolong grants a repeated acquire its TTL. It never shortens the lease: the
// repetition may be an old request that arrives after a renewal for longer.
func (r *record) prolong(ttl time.Duration, now moment) {
	if expires := now.at.plus(ttl); expires > r.expires {
		r.expires, r.ttl = expires, ttl
	}
}

// Renew extends a claim: see leasing.Provider. A claim that has expired is
// lost, also if nobody has taken the name since.
func (p *Provider) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	if err := p.usable(ctx); err != nil {
		return abstractions.Grant{}, err
	}
	return p.renew(req)
}

func (p *Provider) renew(req abstractions.RenewRequest) (abstractions.Grant, error) {
	if err := req.Validate(capabilities); err != nil {
		return abstractions.Grant{}, err
	}
	s := p.shardOf(req.Name)
	s.Lock()
	defer s.Unlock()
	now := p.now()
	r := s.get(req.Name)
	if err := r.lost(req, now); err != nil {
		return abstractions.Grant{}, err
	}
	r.expires, r.ttl = now.at.plus(req.TTL), req.TTL
	if p.options.HistoryRenewals {
		p.note(r, abstractions.HistoryRenewed, now)
	}
	return r.grant(req.TTL), nil
}

// RenewBatch renews one after the other: see leasing.BatchRenewer.
func (p *Provider) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	if err := p.usable(ctx); err != nil {
		return nil, err
	}
	results := make([]abstractions.RenewResult, len(reqs))
	for i := range reqs {
		results[i].Grant, results[i].Err = p.renew(reqs[i])
	}
	return results, nil
}

// Release gives a claim up: see leasing.Provider.
func (p *Provider) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	if err := admit(ctx, p, req); err != nil {
		return err
	}
	s := p.shardOf(req.Name)
	s.Lock()
	defer s.Unlock()
	now := p.now()
	r := s.need(req.Name, now, p.options.Retention)
	r.retire(req.ID, false, now)
	if r.id != req.ID {
		return nil
	}
	if r.held(now) {
		p.note(r, abstractions.HistoryReleased, now)
		s.wake(req.Name)
	} else {
		p.noteExpiry(r)
	}
	r.end(now)
	return nil
}

// Break ends somebody's claim: see leasing.Provider.
func (p *Provider) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	if err := admit(ctx, p, req); err != nil {
		return abstractions.BreakResult{}, err
	}
	s := p.shardOf(req.Name)
	s.Lock()
	defer s.Unlock()
	now := p.now()
	r := s.get(req.Name)
	if r == nil {
		r = &record{name: req.Name}
	}
	if req.IfToken != 0 && req.IfToken != r.token {
		return abstractions.BreakResult{}, fmt.Errorf("%w: %d was to be broken, the latest is %d", abstractions.ErrStale, req.IfToken, r.token)
	}
	if !r.held(now) {
		return abstractions.BreakResult{Token: r.token}, nil
	}
	remaining := p.breakHeld(r, req, now)
	s.wake(req.Name)
	return abstractions.BreakResult{WasHeld: true, Token: r.token, Remaining: remaining}, nil
}

// breakHeld breaks the lease there is and returns how long it still runs.
func (p *Provider) breakHeld(r *record, req abstractions.BreakRequest, now moment) time.Duration {
	r.retire(r.id, true, now)
	if !r.breaking {
		p.note(r, abstractions.HistoryBroken, now)
	}
	if req.Immediate {
		r.end(now)
		return 0
	}
	r.breaking = true
	if r.expires == never {
		r.expires = now.at.plus(max(req.Grace, time.Millisecond))
	}
	return time.Duration(r.expires - now.at)
}

// Inspect shows a record: see leasing.Provider.
func (p *Provider) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	if err := admit(ctx, p, req); err != nil {
		return abstractions.Record{}, err
	}
	s := p.shardOf(req.Name)
	s.Lock()
	defer s.Unlock()
	now := p.now()
	r := s.get(req.Name)
	if r == nil {
		r = &record{name: req.Name}
	}
	return p.show(r, now), nil
}
