package broken

import (
	"context"
	"errors"
	"sync"

	"github.com/distributedleasing/leasing/abstractions"
)

// Defects that concern the ownership of claims.

// releasesAnyLease releases the current lease of a name for any claim.
func releasesAnyLease(p abstractions.Provider) abstractions.Provider {
	return &altered{plain: plain{p}, release: func(ctx context.Context, req abstractions.ReleaseRequest) error {
		record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
		if err == nil && record.Held && record.Fingerprint != abstractions.FingerprintOf(req.ID) {
			if _, err := p.Break(ctx, abstractions.BreakRequest{Name: req.Name, Immediate: true}); err != nil {
				return err
			}
		}
		return p.Release(ctx, req)
	}}
}

// refusesRepetitions refuses the repetition of an acquire that it has granted.
func refusesRepetitions(p abstractions.Provider) abstractions.Provider {
	return &altered{plain: plain{p}, acquire: func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
		record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: req.Name})
		if err == nil && record.Held && record.Fingerprint == abstractions.FingerprintOf(req.ID) {
			return abstractions.Grant{}, &abstractions.HeldError{Holder: record}
		}
		return p.Acquire(ctx, req)
	}}
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
	return &altered{
		plain: plain{p},
		acquire: func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
			grant, err := p.Acquire(ctx, req)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				grant.State = version{versions[req.ID], grant.State}
			}
			return grant, err
		},
		renew: func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
			has, _ := req.State.(version)
			req.State = has.inner
			mu.Lock()
			defer mu.Unlock()
			if has.number != versions[req.ID] {
				return abstractions.Grant{}, &abstractions.LostError{Reason: abstractions.LostTaken}
			}
			grant, err := p.Renew(ctx, req)
			if err == nil {
				versions[req.ID]++
				grant.State = version{versions[req.ID], grant.State}
			}
			return grant, err
		},
		release: func(ctx context.Context, req abstractions.ReleaseRequest) error {
			if has, ok := req.State.(version); ok {
				req.State = has.inner
			}
			return p.Release(ctx, req)
		},
	}
}

// aliases maps IDs to other IDs, or fingerprints to other fingerprints. It is safe for concurrent
// use.
type aliases[T comparable] struct{ sync.Map }

func (a *aliases[T]) of(one T) T {
	if alias, ok := a.Load(one); ok {
		return alias.(T)
	}
	return one
}

// grantsReleasedClaims grants a name to a claim that was released, as if a late
// request were the claim's first request. At the wrapped provider such a claim has
// another ID.
func grantsReleasedClaims(p abstractions.Provider) abstractions.Provider {
	var below, above aliases[string]
	var shown aliases[abstractions.Fingerprint]
	named := func(grant abstractions.Grant) abstractions.Grant {
		grant.ID = above.of(grant.ID)
		return grant
	}
	return &altered{
		plain: plain{p},
		acquire: func(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
			id := req.ID
			req.ID = below.of(id)
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
				holder.Fingerprint = shown.of(holder.Fingerprint)
				err = &abstractions.HeldError{Holder: holder}
			}
			return named(grant), err
		},
		renew: func(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
			req.ID = below.of(req.ID)
			grant, err := p.Renew(ctx, req)
			return named(grant), err
		},
		release: func(ctx context.Context, req abstractions.ReleaseRequest) error {
			req.ID = below.of(req.ID)
			return p.Release(ctx, req)
		},
		inspect: func(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
			record, err := p.Inspect(ctx, req)
			record.Fingerprint = shown.of(record.Fingerprint)
			return record, err
		},
	}
}

// mixesBatches returns the answers of a batch for the wrong items. A provider that does not
// renew in batches is not broken.
func mixesBatches(p abstractions.Provider) abstractions.Provider {
	batch, ok := abstractions.As[abstractions.BatchRenewer](p)
	if !ok {
		return plain{p}
	}
	return mixedBatches{plain{p}, batch}
}

type mixedBatches struct {
	plain
	batch abstractions.BatchRenewer
}

func (p mixedBatches) As(target any) bool {
	batch, ok := target.(*abstractions.BatchRenewer)
	if ok {
		*batch = p
	}
	return ok
}

func (p mixedBatches) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	results, err := p.batch.RenewBatch(ctx, reqs)
	if len(results) > 1 {
		results = append(results[1:], results[0])
	}
	return results, err
}
