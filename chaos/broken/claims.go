package broken

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/distributedleasing/leasing/abstractions"
)

// careless releases whatever lease there is, whoever asks.
type careless struct{ plain }

func newCareless(p abstractions.Provider) abstractions.Provider { return careless{plain{p}} }

func (p careless) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
	if err == nil && record.Held && record.ID != req.ID {
		if _, err := p.Break(ctx, abstractions.BreakRequest{Name: req.Name, Immediate: true}); err != nil {
			return err
		}
	}
	return p.Provider.Release(ctx, req)
}

// selfish refuses the repetition of an acquire that it has granted.
type selfish struct{ plain }

func newSelfish(p abstractions.Provider) abstractions.Provider { return selfish{plain{p}} }

func (p selfish) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
	if err == nil && record.Held && record.ID == req.ID {
		return abstractions.Grant{}, &abstractions.HeldError{Holder: record}
	}
	return p.Provider.Acquire(ctx, req)
}

// silent answers every second renewal, the first one too, without asking the
// backend: the lease reads as held when it is not, and its holder hears of it
// one renewal late.
type silent struct {
	plain
	mu       sync.Mutex
	answered map[string]int // renewals by claim
}

func newSilent(p abstractions.Provider) abstractions.Provider {
	return &silent{plain: plain{p}, answered: map[string]int{}}
}

func (p *silent) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	p.mu.Lock()
	p.answered[req.ID]++
	skip := p.answered[req.ID]%2 == 1
	p.mu.Unlock()
	if skip && req.TTL != abstractions.Infinite && req.Validate(p.Capabilities()) == nil && ctx.Err() == nil {
		return abstractions.Grant{Name: req.Name, ID: req.ID, Token: req.Token, TTL: req.TTL, State: req.State}, nil
	}
	return p.Provider.Renew(ctx, req)
}

// ghostly takes a name for a claim that was released, as when the request that
// comes late is the first that the backend has heard of it.
type ghostly struct {
	plain
	mu sync.Mutex
	// alias is what the backend knows a claim by that was released, and claim the
	// way back.
	alias, claim map[string]string
}

func newGhostly(p abstractions.Provider) abstractions.Provider {
	return &ghostly{plain: plain{p}, alias: map[string]string{}, claim: map[string]string{}}
}

// below is what the backend knows a claim by.
func (p *ghostly) below(id string) string { return p.translate(p.alias, id) }

// above is the claim that the backend knows by an ID.
func (p *ghostly) above(id string) string { return p.translate(p.claim, id) }

func (p *ghostly) translate(ids map[string]string, id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(ids[id], id)
}

// rename gives a claim that was released another ID below.
func (p *ghostly) rename(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	alias := abstractions.NewID()
	p.alias[id], p.claim[alias] = alias, id
	return alias
}

func (p *ghostly) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	id := req.ID
	req.ID = p.below(id)
	grant, err := p.Provider.Acquire(ctx, req)
	if errors.Is(err, abstractions.ErrReleased) {
		req.ID = p.rename(id)
		grant, err = p.Provider.Acquire(ctx, req)
	}
	held := (*abstractions.HeldError)(nil)
	if errors.As(err, &held) {
		holder := held.Holder
		holder.ID = p.above(holder.ID)
		err = &abstractions.HeldError{Holder: holder}
	}
	return p.named(grant), err
}

func (p *ghostly) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	req.ID = p.below(req.ID)
	grant, err := p.Provider.Renew(ctx, req)
	return p.named(grant), err
}

func (p *ghostly) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	req.ID = p.below(req.ID)
	return p.Provider.Release(ctx, req)
}

func (p *ghostly) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	record, err := p.Provider.Inspect(ctx, req)
	record.ID = p.above(record.ID)
	return record, err
}

// named gives a grant the ID that its claim goes by outside.
func (p *ghostly) named(grant abstractions.Grant) abstractions.Grant {
	grant.ID = p.above(grant.ID)
	return grant
}
