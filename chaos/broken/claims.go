package broken

import (
	"context"
	"errors"
	"sync"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// This file has the defects that concern the ownership of claims.

// releasesAnyLease releases the current lease of a name for any claim.
func releasesAnyLease(p abstractions.Provider) abstractions.Provider {
	return withHandler(p, func(ctx context.Context, x *providerkit.Exchange) (any, error) {
		req, ok := x.Request.(abstractions.ReleaseRequest)
		if !ok {
			return x.Send(ctx, x.Request)
		}
		record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
		if err == nil && record.Held && record.Fingerprint != abstractions.FingerprintOf(req.ID) {
			if _, err := p.Break(ctx, abstractions.BreakRequest{Name: req.Name, Immediate: true}); err != nil {
				return nil, err
			}
		}
		return nil, p.Release(ctx, req)
	})
}

// refusesRepetitions refuses a repeated acquire whose first attempt it has granted.
func refusesRepetitions(p abstractions.Provider) abstractions.Provider {
	return withHandler(p, func(ctx context.Context, x *providerkit.Exchange) (any, error) {
		if req, ok := x.Request.(abstractions.AcquireRequest); ok {
			record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
			if err == nil && record.Held && record.Fingerprint == abstractions.FingerprintOf(req.ID) {
				return nil, &abstractions.HeldError{Holder: record}
			}
		}
		return x.Send(ctx, x.Request)
	})
}

// version is the state of a grant: the number of renewals, and the backend's state.
type version struct {
	number int
	inner  any
}

// comparesVersions changes a claim's version with each renewal, as an ETag does, and
// treats a renewal with an earlier version as another holder's. After a lost reply
// it therefore refuses the next renewal.
func comparesVersions(p abstractions.Provider) abstractions.Provider {
	var mu sync.Mutex
	versions := map[string]int{} // by claim
	return withHandler(p, func(ctx context.Context, x *providerkit.Exchange) (any, error) {
		switch req := x.Request.(type) {
		case abstractions.AcquireRequest:
			grant, err := p.Acquire(ctx, req)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				grant.State = version{versions[req.ID], grant.State}
			}
			return grant, err
		case abstractions.RenewRequest:
			has, _ := req.State.(version)
			req.State = has.inner
			mu.Lock()
			defer mu.Unlock()
			if has.number != versions[req.ID] {
				return nil, &abstractions.LostError{Reason: abstractions.LostTaken}
			}
			grant, err := p.Renew(ctx, req)
			if err == nil {
				versions[req.ID]++
				grant.State = version{versions[req.ID], grant.State}
			}
			return grant, err
		case abstractions.ReleaseRequest:
			if has, ok := req.State.(version); ok {
				req.State = has.inner
			}
			return nil, p.Release(ctx, req)
		}
		return x.Send(ctx, x.Request)
	})
}

// aliases maps IDs to other IDs, or fingerprints to other fingerprints. It is safe for concurrent
// use.
type aliases[T comparable] struct{ sync.Map }

func (a *aliases[T]) lookup(one T) T {
	if alias, ok := a.Load(one); ok {
		return alias.(T)
	}
	return one
}

// grantsReleasedClaims grants a name to a claim that was released, as if a late
// request were the claim's first request. The wrapped provider gets such a claim under another ID.
func grantsReleasedClaims(p abstractions.Provider) abstractions.Provider {
	var below, above aliases[string]
	var shown aliases[abstractions.Fingerprint]
	named := func(grant abstractions.Grant) abstractions.Grant {
		grant.ID = above.lookup(grant.ID)
		return grant
	}
	return withHandler(p, func(ctx context.Context, x *providerkit.Exchange) (any, error) {
		switch req := x.Request.(type) {
		case abstractions.AcquireRequest:
			id := req.ID
			req.ID = below.lookup(id)
			grant, err := p.Acquire(ctx, req)
			if errors.Is(err, abstractions.ErrReleased) {
				req.ID = abstractions.NewID()
				below.Store(id, req.ID)
				above.Store(req.ID, id)
				shown.Store(abstractions.FingerprintOf(req.ID), abstractions.FingerprintOf(id))
				grant, err = p.Acquire(ctx, req)
			}
			if held := (*abstractions.HeldError)(nil); errors.As(err, &held) {
				holder := held.Holder
				holder.Fingerprint = shown.lookup(holder.Fingerprint)
				err = &abstractions.HeldError{Holder: holder}
			}
			return named(grant), err
		case abstractions.RenewRequest:
			req.ID = below.lookup(req.ID)
			grant, err := p.Renew(ctx, req)
			return named(grant), err
		case abstractions.ReleaseRequest:
			req.ID = below.lookup(req.ID)
			return nil, p.Release(ctx, req)
		case abstractions.InspectRequest:
			record, err := p.Inspect(ctx, req)
			record.Fingerprint = shown.lookup(record.Fingerprint)
			return record, err
		}
		return x.Send(ctx, x.Request)
	})
}

// mixesBatches returns each answer of a batch for the wrong item. It has no effect on a provider
// that does not renew in batches.
func mixesBatches(p abstractions.Provider) abstractions.Provider {
	return batchOnly{providerkit.Intercept(p, func(ctx context.Context, x *providerkit.Exchange) (any, error) {
		reply, err := x.Send(ctx, x.Request)
		if results, ok := reply.([]abstractions.RenewResult); ok && len(results) > 1 {
			reply = append(results[1:], results[0])
		}
		return reply, err
	})}
}

// batchOnly has only the ability to renew in batches.
type batchOnly struct{ *providerkit.Intercepted }

func (b batchOnly) As(target any) bool {
	_, ok := target.(*abstractions.BatchRenewer)
	return ok && b.Intercepted.As(target)
}
